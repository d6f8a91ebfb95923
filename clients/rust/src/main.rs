//! An agent with a loop of its own, whose history is the log: killed anywhere and started again, it goes on.
//! `cargo run -- talks.db`, with OPENAI_BASE_URL.

use serde_json::{json, Value};
use std::{env, error::Error, io, io::Read, io::Write, net::TcpStream, thread, time::Duration};
use stenolog_agent::Service;

fn main() -> Result<(), Box<dyn Error>> {
    let db = env::args().nth(1).ok_or("usage: stenolog-agent DATABASE")?;
    let mut log = Service::new(&env::var("STENOLOG").unwrap_or_else(|_| "stenolog".into()), &db);
    let schema =
        json!({"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]});
    let look = json!({"name": "look", "description": "Look into a place.", "parameters": schema});
    let tools = json!([{"type": "function", "function": look}]);
    let card =
        json!({"agent": "coder", "model": "gpt-5.2", "persona": "You are coder.", "tools": tools});
    call(&mut log, "join", card)?;
    let question = json!({"text": "What is in the box? Größe: 5 → 6 🐈", "to": ["coder"]});
    append(&mut log, "user_message", question, "question")?;
    let position = loop {
        let state = call(&mut log, "state", json!({}))?;
        match state["effects"].as_array().into_iter().flatten().find(|effect| effect["lane"] == "coder") {
            Some(effect) if effect["call"].is_null() => {
                // A failed call is tried again, at its time.
                thread::sleep(Duration::from_secs_f64(effect["due"].as_f64().unwrap_or(0.0)));
                ask_model(&mut log, &state["position"])?;
            }
            Some(effect) => run_tool(&mut log, &effect["call"])?,
            None => break state["position"].as_u64().unwrap_or(1),
        }
    };
    let last = call(&mut log, "entries", json!({"after": position - 1}))?;
    let event = &last["entries"][0]["event"];
    let texts = event["parts"].as_array().into_iter().flatten().filter(|part| part["type"] == "text");
    let text: String = texts.filter_map(|part| part["text"].as_str()).collect();
    println!("{text}{}", event["message"].as_str().unwrap_or(""));
    Ok(())
}

fn call(log: &mut Service, method: &str, mut params: Value) -> Result<Value, stenolog_agent::Error> {
    params["conversation"] = "story".into();
    log.call(method, params)
}

fn append(log: &mut Service, kind: &str, event: Value, id: &str) -> Result<Value, stenolog_agent::Error> {
    call(log, "append", json!({"events": [{"kind": kind, "event": event, "id": id}]}))
}

fn ask_model(log: &mut Service, position: &Value) -> Result<(), Box<dyn Error>> {
    let request = call(log, "request", json!({"agent": "coder", "at": position, "with_text": true}))?;
    let text = request["text"].as_str().filter(|_| request["sendable"] == true);
    let outcome = post(text.ok_or_else(|| request["reason"].to_string())?)
        .unwrap_or_else(|error| json!({"failure": {"category": "network", "message": error.to_string()}}));
    let answer = json!({"agent": "coder", "receipt": request["receipt"], "outcome": outcome, "retry": true,
        "id": format!("answer-{}", request["at"])});
    call(log, "answer", answer)?;
    Ok(())
}

fn run_tool(log: &mut Service, made: &Value) -> Result<(), Box<dyn Error>> {
    let arguments: Value = serde_json::from_str(made["arguments"].as_str().unwrap_or("")).unwrap_or_default();
    let text = format!("in the {}: a cat", arguments["place"].as_str().unwrap_or(""));
    let result = json!({"call_id": made["id"], "call": {"entry": made["entry"], "index": made["index"]},
        "name": made["name"], "text": text});
    append(log, "tool_result", result, &format!("result-{}-{}", made["position"], made["index"]))?;
    Ok(())
}

/// The outcome of a model call, by plain HTTP/1.0; your program has a client of its own, such as reqwest.
fn post(text: &str) -> io::Result<Value> {
    let base = env::var("OPENAI_BASE_URL").unwrap_or_else(|_| "http://127.0.0.1:8080/v1".into());
    let address = base.strip_prefix("http://").and_then(|address| address.split_once('/'));
    let (host, path) = address.expect("OPENAI_BASE_URL has the form http://host:port/path");
    let key =
        env::var("OPENAI_API_KEY").map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
    let mut stream = TcpStream::connect(host)?;
    write!(stream, "POST /{path}/chat/completions HTTP/1.0\r\nHost: {host}\r\n{key}")?;
    write!(stream, "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}", text.len())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let (head, body) = reply.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status: u16 = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    if status == 200 {
        return Ok(json!({"response": serde_json::from_str::<Value>(body)?}));
    }
    let headers: Value = head.lines().filter_map(|line| line.split_once(": ")).collect();
    Ok(json!({"failure": {"status": status, "message": body, "headers": headers}}))
}
