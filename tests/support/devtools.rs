//! Chromium without a screen, told by its DevTools protocol what to do, over a pair of pipes.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value as Json, json};

/// Nothing takes so long when all is well.
const LIMIT: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    pipe: File,
    messages: Receiver<Json>,
    number: u64,
    session: String,
    /// What came that was not waited for.
    events: VecDeque<Json>,
}

impl Browser {
    /// Starts it; the folder, which is empty, is for what it keeps.
    pub fn start(folder: &str) -> Browser {
        let [to, from] = ["to", "from"].map(|name| format!("{folder}/{name}"));
        let open = |path: &str| {
            mkfifo(path, Mode::S_IRWXU).unwrap();
            // With both ends, so that it waits for nobody.
            OpenOptions::new().read(true).write(true).open(path).unwrap()
        };
        let (pipe, answers) = (open(&to), open(&from));
        // The protocol is at descriptors 3 and 4.
        let shell = r#"exec chromium-headless-shell --no-sandbox --disable-gpu --remote-debugging-pipe \
            --user-data-dir="$1" about:blank 3<"$2" 4>"$3""#;
        let mut command = Command::new("sh");
        command.args(["-c", shell, "sh", folder, &to, &from]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (sender, messages) = channel();
        // It waits for answers to the end of this process.
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser { child, pipe, messages, number: 0, session: String::new(), events: VecDeque::new() };
        let page = browser.tell("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        browser.session = browser.tell("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().into();
        for domain in ["Page", "Runtime", "Log"] {
            browser.tell(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Tells it something; what it answers.
    #[track_caller]
    pub fn tell(&mut self, method: &str, with: Json) -> Json {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": with });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.pipe.write_all(format!("{message}\0").as_bytes()).unwrap();
        let start = Instant::now();
        loop {
            let left = LIMIT.saturating_sub(start.elapsed());
            let message = self.messages.recv_timeout(left).unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == self.number {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// Opens a page of this size.
    pub fn open(&mut self, url: &str, (width, height): (u32, u32), is_dark: bool) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.tell("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = json!({ "name": "prefers-color-scheme", "value": if is_dark { "dark" } else { "light" } });
        self.tell("Emulation.setEmulatedMedia", json!({ "features": [scheme] }));
        // Another part of the same page would not be loaded again.
        self.tell("Page.navigate", json!({ "url": "about:blank" }));
        self.tell("Page.navigate", json!({ "url": url }));
    }

    /// The value of an expression of JavaScript.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Json {
        let with = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.tell("Runtime.evaluate", with);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait(&mut self, expression: &str) {
        let start = Instant::now();
        while self.value(expression) != true {
            let text = "document.body.innerText";
            assert!(start.elapsed() < LIMIT, "{expression}: {}", self.value(text));
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key, as a keyboard does.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            " " => (32, " "),
            other => panic!("{other}"),
        };
        let down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "text": text });
        self.tell("Input.dispatchKeyEvent", down);
        self.tell("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }));
    }

    /// Types a text.
    pub fn write(&mut self, text: &str) {
        self.tell("Input.insertText", json!({ "text": text }));
    }

    /// A picture of what is seen, as WebP in base64.
    pub fn picture(&mut self) -> String {
        self.tell("Page.captureScreenshot", json!({ "format": "webp", "quality": 80 }))["data"].as_str().unwrap().into()
    }

    /// What the page complained of since the last time: exceptions, what its security policy forbids, errors.
    pub fn complaints(&mut self) -> Vec<String> {
        // All that came before this answer is there.
        self.value("1");
        let is_bad = |event: &Json| {
            let level = &event["params"]["entry"]["level"];
            event["method"] == "Runtime.exceptionThrown" || event["method"] == "Log.entryAdded" && level == "error"
        };
        self.events.drain(..).filter(is_bad).map(|event| event.to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
