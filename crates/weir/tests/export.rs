//! An incomplete export leaves no file that looks complete.

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::sync_channel;

use support::{run, stderr, wait_for, weir};

/// The first chunk of an answer.
const BEGIN: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{\"n\":1}\n\r\n";

/// Serves these responses, one per connection, and then passes the connection to `sent`. Returns
/// the address of the server.
fn answering(answers: Vec<String>, mut sent: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            stream.write_all(answer.as_bytes()).unwrap();
            sent(stream);
        }
    });
    address
}

fn names(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn interrupted_export_keeps_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    for (before, after) in [(None, vec![]), (Some("old"), vec!["out"])] {
        if let Some(before) = before {
            std::fs::write(dir.path().join("out"), before).unwrap();
        }
        let api = answering(vec![BEGIN.to_owned()], drop).to_string();
        let export = run(dir.path(), &["store", "export", "--api", &api, "--file", "out"]);
        assert_eq!(export.status.code(), Some(1), "{export:?}");
        assert!(stderr(&export).contains("the export was interrupted"), "{export:?}");
        assert_eq!(names(dir.path()), after);
        if let Some(before) = before {
            assert_eq!(std::fs::read_to_string(dir.path().join("out")).unwrap(), before);
        }
    }
    let api = answering(vec![format!("{BEGIN}0\r\n\r\n")], drop).to_string();
    let export = run(dir.path(), &["store", "export", "--api", &api, "--file", "out"]);
    assert!(export.status.success(), "{export:?}");
    assert_eq!(names(dir.path()), ["out"]);
    assert_eq!(std::fs::read_to_string(dir.path().join("out")).unwrap(), "{\"n\":1}\n");
}

#[test]
fn complete_pieces_are_named_after_failure() {
    let dir = tempfile::tempdir().unwrap();
    let whole = BEGIN.replace("\r\n\r\n8", "\r\nx-weir-next: c\r\n\r\n8") + "0\r\n\r\n";
    let api = answering(vec![whole, BEGIN.to_owned()], drop).to_string();
    let words = ["store", "export", "--format", "parquet", "--api", &api, "--file", "out"];
    let export = run(dir.path(), &words);
    assert_eq!(export.status.code(), Some(1), "{export:?}");
    assert!(stderr(&export).contains("only the beginning was written: out"), "{export:?}");
    assert_eq!(names(dir.path()), ["out"]);
}

#[test]
fn interrupt_removes_the_incomplete_export() {
    let dir = tempfile::tempdir().unwrap();
    // The connection stays open until the end of this test.
    let (sender, receiver) = sync_channel(1);
    let api = answering(vec![BEGIN.to_owned()], move |stream| sender.send(stream).unwrap());
    let mut command = weir(dir.path());
    command.args(["store", "export", "--api", &api.to_string(), "--file", "out"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    wait_for("a part is written", || {
        let part = std::fs::read(dir.path().join("out.part")).unwrap_or_default();
        (!part.is_empty()).then_some(())
    });
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let export = child.wait_with_output().unwrap();
    assert_eq!(export.status.code(), Some(130), "{export:?}");
    assert!(stderr(&export).contains("interrupted: the export is incomplete"), "{export:?}");
    assert_eq!(names(dir.path()), Vec::<String>::new());
    drop(receiver);
}
