//! A stand-in for UAA and the Cloud Controller of Cloud Foundry: tokens, and the applications that
//! their owners may see.
//!
//! Invariant: it responds like the originals to the requests that weir sends: 404 for an unknown
//! application, 400 for an unknown token, 401 for an unknown client; lists have pages of at most
//! [`PAGE_MAX`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Name and secret of the client that may check tokens.
const CLIENT: &str = "weir:cloud-secret";

/// Maximum number of applications on a page, smaller than that of the original (5000), so that
/// lists have several pages.
const PAGE_MAX: usize = 2;

/// A running stand-in.
#[derive(Debug)]
pub struct Cloud {
    address: SocketAddr,
    shared: Arc<CloudServer>,
}

#[derive(Debug, Default)]
struct CloudServer {
    known: Mutex<CloudState>,
    requests: AtomicU64,
    is_failing: AtomicBool,
    is_stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct CloudState {
    /// Scopes of each token.
    tokens: BTreeMap<String, String>,
    /// Keys with which tokens are signed.
    keys: Vec<Value>,
    /// Applications that the owners of tokens may see.
    visible: BTreeSet<(String, String)>,
}

impl Cloud {
    /// Starts it on a free port of the loopback address.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(CloudServer::default());
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let serving = Arc::clone(&serving);
                // A client that disconnects early is not an error.
                std::thread::spawn(move || drop(serving.answer(&stream)));
            }
        });
        Self { address, shared }
    }

    /// Returns the URL of both servers.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a token, with scopes separated by spaces.
    pub fn add_token(&self, token: &str, scopes: &str) {
        self.shared.known().tokens.insert(token.to_owned(), scopes.to_owned());
    }

    /// Lists these keys, as with [`TokenKey::listed`](crate::TokenKey::listed).
    pub fn list_keys(&self, keys: &[Value]) {
        self.shared.known().keys = keys.to_vec();
    }

    /// Lets the owner of a token see an application.
    pub fn allow(&self, token: &str, application: &str) {
        self.shared.known().visible.insert((token.to_owned(), application.to_owned()));
    }

    /// Removes a token, as if it had expired.
    pub fn remove_token(&self, token: &str) {
        self.shared.known().tokens.remove(token);
    }

    /// Makes every request fail from now on, or none.
    pub fn fail(&self, is_failing: bool) {
        self.shared.is_failing.store(is_failing, Ordering::Relaxed);
    }

    /// Returns the number of answered requests.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _woken = TcpStream::connect(self.address);
    }
}

impl CloudServer {
    fn known(&self) -> std::sync::MutexGuard<'_, CloudState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let request = line.trim().to_owned();
        let (mut credentials, mut length) = (String::new(), 0);
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "authorization" => value.clone_into(&mut credentials),
                "content-length" => length = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let (status, text) = if self.is_failing.load(Ordering::Relaxed) {
            (500, String::new())
        } else {
            self.respond(&request, &credentials, &String::from_utf8_lossy(&body))
        };
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{text}",
            text.len()
        )
    }

    fn respond(&self, request: &str, credentials: &str, body: &str) -> (u16, String) {
        let known = self.known();
        let parts: Vec<&str> = request.split(' ').collect();
        let error = |status, name: &str| (status, format!("{{\"error\":\"{name}\"}}"));
        match parts[..] {
            ["POST", "/check_token", _] => {
                let client = credentials.strip_prefix("Basic ").unwrap_or_default();
                if STANDARD.encode(CLIENT) != client {
                    return error(401, "unauthorized");
                }
                let token = body.strip_prefix("token=").unwrap_or_default();
                let Some(scopes) = known.tokens.get(token) else {
                    return error(400, "invalid_token");
                };
                let scopes: Vec<&str> = scopes.split(' ').collect();
                (200, format!("{{\"user_id\":\"u\",\"scope\":{scopes:?}}}"))
            }
            ["GET", "/token_keys", _] => (200, json!({ "keys": known.keys }).to_string()),
            ["GET", path, _] if path.starts_with("/v3/apps?") => {
                let token = credentials.strip_prefix("bearer ").unwrap_or_default();
                (200, known.page(token, path).to_string())
            }
            ["GET", path, _] if path.starts_with("/v3/service_instances?") => {
                (200, json!({ "pagination": { "next": null }, "resources": [] }).to_string())
            }
            ["GET", path, _] => {
                let token = credentials.strip_prefix("bearer ").unwrap_or_default();
                let application = path.strip_prefix("/internal/v4/log_access/").unwrap_or_default();
                if !known.visible.contains(&(token.to_owned(), application.to_owned())) {
                    return error(404, "not_found");
                }
                (200, "{}".to_owned())
            }
            _ => error(404, "not_found"),
        }
    }
}

impl CloudState {
    /// A page of the applications that the owner of a token may see.
    fn page(&self, token: &str, path: &str) -> Value {
        let parameter = |name: &str| -> Option<usize> {
            let (_, query) = path.split_once('?')?;
            let mut all = query.split('&').filter_map(|pair| pair.split_once('='));
            all.find(|(key, _)| *key == name)?.1.parse().ok()
        };
        let page = parameter("page").unwrap_or(1).max(1);
        let size = parameter("per_page").unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let own = self.visible.iter().filter(|(owner, _)| owner == token);
        let mut rest = own.skip((page - 1) * size).map(|(_, id)| json!({ "guid": id }));
        let resources: Vec<Value> = rest.by_ref().take(size).collect();
        let next = rest.next().map(|_| json!({ "href": format!("/v3/apps?page={}", page + 1) }));
        json!({ "pagination": { "next": next }, "resources": resources })
    }
}
