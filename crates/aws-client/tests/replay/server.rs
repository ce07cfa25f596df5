//! A server that answers from files, in the order in which a test lays them out, and remembers what it was asked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use karpenter_aws_client::{CallTimeouts, Connection, Options, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a request was, whichever of AWS's protocols it came in.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) action: String,
    /// Form fields, or the fields of a JSON object as text.
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Asked {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

#[derive(Default)]
struct Script {
    answers: Mutex<BTreeMap<String, VecDeque<(u16, String)>>>,
    asked: Mutex<Vec<Asked>>,
}

/// Until it is dropped.
pub(crate) struct Server {
    script: Arc<Script>,
    pub(crate) connection: Connection,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers are files of `tests/answers`, named `service.Action.case.xml` or `.json`; an error's case starts with its
    /// HTTP status.
    pub(crate) async fn with(files: &[&str]) -> Self {
        let answers: Vec<(String, u16, String)> = files.iter().map(|file| read(file)).collect();
        let answers: Vec<_> = answers.iter().map(|(action, status, body)| (action.as_str(), *status, body)).collect();
        Self::answering(&answers).await
    }

    /// Answers by action, with their status.
    pub(crate) async fn answering(answers: &[(&str, u16, &String)]) -> Self {
        Self::with_timeouts(answers, None).await
    }

    /// A status of zero is no answer at all, over a connection that stays open.
    pub(crate) async fn with_timeouts(answers: &[(&str, u16, &String)], timeouts: Option<CallTimeouts>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Script::default());
        for (action, status, body) in answers {
            let mut all = script.answers.lock().unwrap();
            all.entry((*action).to_owned()).or_default().push_back((*status, (*body).clone()));
        }
        let task = tokio::spawn(accept(listener, script.clone()));
        let options =
            Options { region: Some("us-east-1".to_owned()), version: "1.2.3", emulator: Some(address), timeouts };
        Self { script, connection: connect(options).await.unwrap(), task }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.script.asked.lock().unwrap().clone()
    }

    /// The one request there was.
    pub(crate) fn only(&self) -> Asked {
        let all = self.asked();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }
}

pub(crate) fn read(file: &str) -> (String, u16, String) {
    let path = format!("{}/tests/answers/{file}", env!("CARGO_MANIFEST_DIR"));
    let body = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let parts: Vec<&str> = file.split('.').collect();
    let status = parts.get(2).and_then(|case| case.get(..3)?.parse().ok()).unwrap_or(200);
    (parts[1].to_owned(), status, body)
}

async fn accept(listener: TcpListener, script: Arc<Script>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, script.clone()));
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Script>) {
    while let Some(asked) = request(&mut stream).await {
        let next = script.answers.lock().unwrap().get_mut(&asked.action).and_then(VecDeque::pop_front);
        let (status, body) = next.unwrap_or_else(|| (599, format!("no answer is left for {}", asked.action)));
        let kind = if body.starts_with('{') { "application/x-amz-json-1.1" } else { "text/xml" };
        script.asked.lock().unwrap().push(asked);
        if status == 0 {
            std::future::pending::<()>().await;
        }
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nx-amzn-requestid: request-1\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(head.as_bytes()).await.is_err() || stream.write_all(body.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 {
            return None;
        }
        bytes.extend_from_slice(&buffer[..read]);
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.split("\r\n");
    let first = lines.next()?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 {
            return None;
        }
        body.extend_from_slice(&buffer[..read]);
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Some(understand(&first, headers, &body))
}

/// Forms name their action, JSON has it in a header, REST in its path.
fn understand(first: &str, headers: BTreeMap<String, String>, body: &str) -> Asked {
    let path = first.split(' ').nth(1).unwrap_or_default();
    if let Some(target) = headers.get("x-amz-target") {
        let action = target.rsplit('.').next().unwrap_or_default().to_owned();
        let object: serde_json::Value = serde_json::from_str(body).unwrap();
        let fields = object
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        return Asked { action, fields: fields.collect(), headers };
    }
    if body.is_empty() {
        let rest = [("/clusters/", "DescribeCluster"), ("/managedresources/", "GetManagedResource")];
        let (prefix, action) = rest.into_iter().find(|(prefix, _)| path.starts_with(prefix)).unwrap();
        let name = decode(&path[prefix.len()..]);
        return Asked { action: action.to_owned(), fields: [("name".to_owned(), name)].into(), headers };
    }
    let fields: BTreeMap<String, String> = body
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    Asked { action: fields.get("Action").cloned().unwrap_or_default(), fields, headers }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap().to_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).unwrap()
}
