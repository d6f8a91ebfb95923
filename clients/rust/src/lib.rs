//! A client of `stenolog serve --stdio`: a process and its pipe, one call at a time.

use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Result as IoResult, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Why a call has no result.
#[derive(Debug)]
pub enum Error {
    /// Somebody else appended first.
    VersionConflict { expected: u64, found: u64 },
    /// Another error of the log: its type, as `docs/reference/errors.md` has it, and its words.
    Other { kind: String, message: String },
    /// The service does not start, or died at each of five starts.
    Lost(std::io::Error),
}

impl std::error::Error for Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The log behind a pipe. Dropped, it closes the pipe and waits until the service has ended.
pub struct Service {
    command: Vec<String>,
    running: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Service {
    /// `command` starts Stenolog, such as "stenolog"; blanks part its arguments.
    pub fn new(command: &str, db: &str) -> Service {
        let words = command.split_whitespace().chain(["serve", "--stdio", "--db", db]);
        Service { command: words.map(String::from).collect(), running: None }
    }

    /// Call a method. Where an answer is lost, a new service is sent the same call: give ids to what you append.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut answer = self.exchange(&call);
        for _ in 1..5 {
            if answer.is_err() {
                self.end();
                answer = self.exchange(&call);
            }
        }
        let mut answer = answer.map_err(Error::Lost)?;
        let error = &answer["error"]["data"];
        let position = |name: &str| error[name].as_u64().unwrap_or(0);
        match (error["type"].as_str(), error["message"].as_str()) {
            (Some("VersionConflictError"), _) => {
                Err(Error::VersionConflict { expected: position("expected"), found: position("found") })
            }
            (Some(kind), Some(words)) => Err(Error::Other { kind: kind.into(), message: words.into() }),
            _ => Ok(answer["result"].take()),
        }
    }

    fn exchange(&mut self, call: &Value) -> IoResult<Value> {
        if self.running.is_none() {
            let mut command = Command::new(&self.command[0]);
            let mut child =
                command.args(&self.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            self.running = Some((child, input, BufReader::new(output)));
        }
        let (_, input, output) = self.running.as_mut().unwrap();
        input.write_all(format!("{call}\n").as_bytes())?;
        let mut line = String::new();
        output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    fn end(&mut self) {
        if let Some((mut child, input, output)) = self.running.take() {
            drop((input, output));
            let _ = child.wait();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}
