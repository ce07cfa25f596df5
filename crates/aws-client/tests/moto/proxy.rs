//! What moto leaves out of CreateFleet, put in on the way: client tokens that mean the same fleet, and capacity that runs
//! out. Everything else goes through as it is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SOLD_OUT: &str = include_str!("../answers/ec2.CreateFleet.sold-out.xml");
const MISMATCH: &str = include_str!("../answers/ec2.CreateFleet.400-token-mismatch.xml");

#[derive(Default)]
struct Ways {
    sold_out: AtomicBool,
    /// By token: what was asked, and the whole answer.
    fleets: Mutex<BTreeMap<String, (String, Vec<u8>)>>,
}

/// Until it is dropped.
pub(crate) struct Proxy {
    ways: Arc<Ways>,
    pub(crate) address: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// `upstream` is a URL.
    pub(crate) async fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (ways, upstream) = (Arc::new(Ways::default()), upstream.trim_start_matches("http://").to_owned());
        let shared = ways.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (ways, upstream) = (shared.clone(), upstream.clone());
                // A client that breaks off is its own problem.
                tokio::spawn(async move { serve(stream, &ways, &upstream).await.unwrap_or_default() });
            }
        });
        Self { ways, address, task }
    }

    pub(crate) fn sell_out(&self, sold_out: bool) {
        self.ways.sold_out.store(sold_out, Ordering::SeqCst);
    }
}

/// One request, and then the end of the connection.
async fn serve(mut stream: TcpStream, ways: &Ways, upstream: &str) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..read]);
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    while bytes.len() < head + length.unwrap_or(0) {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..read]);
    }
    let body = String::from_utf8_lossy(&bytes[head..]).into_owned();
    let fields: BTreeMap<&str, &str> = body.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let launches = fields.get("Action") == Some(&"CreateFleet") && fields.get("DryRun") != Some(&"true");
    let token = fields.get("ClientToken").filter(|_| launches).map(|token| (*token).to_owned());
    let known = token.as_ref().and_then(|token| ways.fleets.lock().unwrap().get(token).cloned());
    let answer = match known {
        Some((asked, answer)) if asked == body => answer,
        Some(_) => page(400, MISMATCH),
        None if launches && ways.sold_out.load(Ordering::SeqCst) => page(200, SOLD_OUT),
        None => forward(&text, &bytes[head..], upstream).await?,
    };
    if let Some(token) = token {
        ways.fleets.lock().unwrap().entry(token).or_insert_with(|| (body.clone(), answer.clone()));
    }
    stream.write_all(&answer).await
}

async fn forward(head: &str, body: &[u8], upstream: &str) -> std::io::Result<Vec<u8>> {
    let mut moto = TcpStream::connect(upstream).await?;
    let (first, rest) = head.split_once("\r\n").unwrap_or((head, ""));
    moto.write_all(format!("{first}\r\nconnection: close\r\n{rest}").as_bytes()).await?;
    moto.write_all(body).await?;
    let mut answer = Vec::new();
    moto.read_to_end(&mut answer).await?;
    Ok(answer)
}

fn page(status: u16, body: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: text/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}
