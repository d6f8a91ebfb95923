//! The checks of "Context Loss Issue Analysis", each step in a service that was just started.

use serde_json::{json, Value};
use std::{env, path::PathBuf, process};
use stenolog_agent::{Error, Service};

/// Return a service on the database of a test.
fn opened(db: &PathBuf) -> Service {
    Service::new(&env::var("STENOLOG").unwrap_or_else(|_| "stenolog".into()), db.to_str().unwrap())
}

fn database(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("stenolog-{}-{name}", process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("talks.db")
}

fn said(text: &str, id: &str) -> Value {
    json!({"conversation": "demo", "events": [{"kind": "user_message", "event": {"text": text, "to": ["coder"]}, "id": id}]})
}

fn tool() -> Value {
    let schema = json!({"type": "object", "properties": {}});
    json!({"type": "function", "function": {"name": "look", "description": "Look.", "parameters": schema}})
}

/// Return a message of the model's as an OpenAI server gives it.
fn chat(message: Value) -> Value {
    let reason = if message["content"].is_null() { "tool_calls" } else { "stop" };
    let choices = json!([{"index": 0, "finish_reason": reason, "message": message}]);
    json!({"id": "x", "object": "chat.completion", "model": "gpt-5.2", "choices": choices})
}

fn answered(log: &mut Service, message: Value, id: &str) {
    let request = log.call("request", json!({"conversation": "demo", "agent": "coder"})).unwrap();
    let answer = json!({"conversation": "demo", "agent": "coder", "receipt": request["receipt"],
        "outcome": {"response": chat(message)}, "id": id});
    log.call("answer", answer).unwrap();
}

/// `state.history`: the messages in the log.
fn history(db: &PathBuf) -> Vec<Value> {
    let found = opened(db).call("entries", json!({"conversation": "demo"})).unwrap();
    let entries = found["entries"].as_array().unwrap();
    entries.iter().filter(|entry| entry["kind"] != "mode_switch").cloned().collect()
}

/// `build_full_prompt`: the roles of the messages that the model is sent, without the system's.
fn sent(db: &PathBuf) -> Vec<String> {
    let request = opened(db).call("request", json!({"conversation": "demo", "agent": "coder"})).unwrap();
    let messages = request["body"]["messages"].as_array().unwrap();
    let roles = messages.iter().map(|message| message["role"].as_str().unwrap().to_owned());
    roles.filter(|role| role != "system").collect()
}

fn state(db: &PathBuf, at: u64) -> Value {
    opened(db).call("state", json!({"conversation": "demo", "at": at})).unwrap()
}

#[test]
fn the_history_has_one_two_and_three_messages_and_the_second_turn_is_sent_all_of_them() {
    let db = database("history");
    let card = json!({"conversation": "demo", "agent": "coder", "model": "gpt-5.2", "persona": "You are coder.",
        "tools": [tool()]});
    opened(&db).call("join", card).unwrap();

    opened(&db).call("append", said("What is in the box?", "q1")).unwrap();
    assert_eq!(history(&db).len(), 1);
    assert_eq!(sent(&db), ["user"]);
    let mut steps = vec![state(&db, 2)];
    assert_eq!(steps[0]["decisions"]["coder"]["do"], "call_model");

    let call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    answered(&mut opened(&db), json!({"role": "assistant", "content": null, "tool_calls": [call]}), "a1");
    assert_eq!(history(&db).len(), 2);
    steps.push(state(&db, 3));
    assert_eq!(steps[1]["decisions"]["coder"]["do"], "run_tools");

    let open = &steps[1]["effects"][0]["call"];
    let made = json!({"entry": open["entry"], "index": open["index"]});
    let result = json!({"call_id": open["id"], "call": made, "name": open["name"], "text": "a cat"});
    let event = json!({"kind": "tool_result", "event": result, "id": "r1"});
    opened(&db).call("append", json!({"conversation": "demo", "events": [event], "expected": 3})).unwrap();
    assert_eq!(history(&db).len(), 3);
    assert_eq!(sent(&db), ["user", "assistant", "tool"]);
    steps.push(state(&db, 4));
    assert_eq!(steps[2]["decisions"]["coder"]["do"], "call_model");

    answered(&mut opened(&db), json!({"role": "assistant", "content": "A cat."}), "a2");
    steps.push(state(&db, 5));
    assert_eq!(steps[3]["decisions"]["coder"]["do"], "wait");
    opened(&db).call("append", said("Which colour?", "q2")).unwrap();
    assert_eq!(sent(&db), ["user", "assistant", "tool", "assistant", "user"]);

    // The state is the fold: what was true at a position is true of it for ever.
    for (before, at) in steps.iter().zip(2..) {
        assert_eq!(&state(&db, at), before);
    }
}

#[test]
fn each_transition_begins_where_the_one_before_has_ended_and_the_state_is_where_the_last_ends() {
    let db = database("transitions");
    let mut log = opened(&db);
    log.call("join", json!({"conversation": "demo", "agent": "coder", "model": "gpt-5.2"})).unwrap();
    for turn in 0..3 {
        log.call("append", said("And now?", &format!("q{turn}"))).unwrap();
        answered(&mut log, json!({"role": "assistant", "content": "Nothing."}), &format!("a{turn}"));
    }
    let made = log.call("transitions", json!({"conversation": "demo"})).unwrap();
    let transitions = made["transitions"].as_array().unwrap();
    assert_eq!(transitions.len(), 7);
    for pair in transitions.windows(2) {
        assert_eq!(pair[0]["target"], pair[1]["source"]);
    }
    for each in transitions {
        let then = log.call("state", json!({"conversation": "demo", "at": each["position"]})).unwrap();
        assert_eq!(then["state"]["lanes"]["coder"]["status"], each["target"]);
        assert_eq!(then["decisions"]["coder"], each["decision"]);
    }
}

#[test]
fn pruning_keeps_what_the_system_said_and_the_latest_messages_within_the_budget() {
    let mut log = opened(&database("pruning"));
    let policy = json!({"budget": {"tokens": 400}, "pins": {"authors": ["system"]}});
    let card = json!({"conversation": "demo", "agent": "coder", "model": "gpt-5.2", "policy": policy});
    log.call("join", card).unwrap();
    let rule =
        json!({"kind": "user_message", "event": {"text": "Never touch main.", "author_kind": "system"}});
    log.call("append", json!({"conversation": "demo", "events": [rule]})).unwrap();
    for turn in 0..20 {
        log.call("append", said(&"And why is that so? ".repeat(8), &format!("q{turn}"))).unwrap();
        answered(&mut log, json!({"role": "assistant", "content": "Because."}), &format!("a{turn}"));
    }
    log.call("append", said("And now?", "last")).unwrap();
    let asked = json!({"conversation": "demo", "agent": "coder", "with_explanation": true});
    let request = log.call("request", asked).unwrap();
    let messages = request["body"]["messages"].as_array().unwrap();
    assert_eq!(messages[0]["content"], "Never touch main.");
    assert_eq!(messages[messages.len() - 1]["content"], "And now?");
    assert!(request["explanation"]["size"]["tokens"].as_u64().unwrap() < 400);
    assert!(messages.len() < 20, "{} messages", messages.len());
}

#[test]
fn max_steps_ends_a_loop_of_claims_and_the_log_says_so() {
    let mut log = opened(&database("limits"));
    let card = json!({"conversation": "demo", "agent": "coder", "model": "gpt-5.2", "tools": [tool()]});
    log.call("join", card).unwrap();
    log.call("append", said("Look on and on.", "q1")).unwrap();
    let mut steps = 0;
    loop {
        let work = log.call("claim", json!({"conversation": "demo", "limits": {"max_steps": 3}})).unwrap();
        let claimed = &work["claimed"][0];
        if claimed.is_null() {
            break;
        }
        let outcome = if claimed["call"].is_null() {
            steps += 1;
            let function = json!({"name": "look", "arguments": format!("{{\"place\": {steps}}}")});
            let call = json!({"id": format!("c{steps}"), "type": "function", "function": function});
            json!({"response": chat(json!({"role": "assistant", "content": null, "tool_calls": [call]}))})
        } else {
            json!({"output": {"text": "nothing"}})
        };
        let settled = json!({"conversation": "demo", "fence": claimed["fence"], "outcome": outcome});
        log.call("settle", settled).unwrap();
    }
    let state = log.call("state", json!({"conversation": "demo"})).unwrap();
    let before = state["position"].as_u64().unwrap() - 1;
    let last = log.call("entries", json!({"conversation": "demo", "after": before})).unwrap();
    let error = &last["entries"][0]["event"];
    assert_eq!((steps, error["category"].as_str()), (3, Some("budget")));
    assert!(error["message"].as_str().unwrap().starts_with("max_steps: 3 steps"), "{error}");
}

#[test]
fn who_appends_behind_a_position_that_has_passed_gets_a_version_conflict() {
    let db = database("conflict");
    opened(&db).call("append", said("I am first.", "q1")).unwrap();
    let mut late = said("I am late.", "q2");
    late["expected"] = json!(1);
    match opened(&db).call("append", late) {
        Err(Error::VersionConflict { expected: 1, found: 2 }) => {}
        other => panic!("expected a version conflict, found {other:?}"),
    }
    assert_eq!(history(&db).len(), 1);
}

#[test]
fn another_error_has_its_type_and_its_words() {
    match opened(&database("error")).call("apend", json!({})) {
        Err(Error::Other { kind, message }) => {
            assert_eq!(kind, "MethodNotFoundError");
            assert!(message.contains("did you mean 'append'?"), "{message}");
        }
        other => panic!("expected an error, found {other:?}"),
    }
}

#[test]
fn a_service_that_does_not_start_is_lost() {
    let found = Service::new("no-such-program", "talks.db").call("about", json!({}));
    assert!(matches!(found, Err(Error::Lost(_))), "{found:?}");
}

/// Run by hand, beside a writer in another language: a hundred messages, each behind the position that was read.
#[test]
#[ignore]
fn a_hundred_messages_beside_another_writer() {
    let mut log = opened(&PathBuf::from(env::var("DATABASE").unwrap()));
    for number in 0..100 {
        loop {
            let found = log.call("state", json!({"conversation": "demo"})).unwrap();
            let mut message = said("Hello from Rust", &format!("rust{number}"));
            message["expected"] = found["position"].clone();
            match log.call("append", message) {
                Ok(_) => break,
                Err(Error::VersionConflict { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
        }
    }
}
