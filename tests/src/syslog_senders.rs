//! Messages of common senders: rsyslog, syslog-ng and logger, over every transport.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weir_testkit::{PATIENCE, Weir, wait_for};

use crate::scene::{OUTPUT, Scene};
use crate::syslog::{file, records, source};

/// Where `xtask` has unpacked the other servers.
fn root() -> PathBuf {
    let root = std::env::var_os("WEIR_SYSLOG_SERVERS");
    root.expect("WEIR_SYSLOG_SERVERS is set: run this test with `cargo xtask test`").into()
}

/// A program that sends; it is killed at the end.
struct Sender(Child);

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Sender {
    fn start(mut command: Command, dir: &Path) -> Self {
        let root = root();
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/syslog-ng"];
        let libraries = libraries.map(|dir| root.join(dir).display().to_string()).join(":");
        let log = std::fs::File::create(dir.join("sender.log")).unwrap();
        command.env("LD_LIBRARY_PATH", libraries).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().expect("the sender starts"))
    }
}

/// Sends `text` with logger, once the socket is there.
fn log(arguments: &[&str], text: &str) {
    let sent = wait_for(PATIENCE, || {
        let status = Command::new("logger").args(arguments).args(["--tag", "prog", text]).status();
        status.is_ok_and(|status| status.success()).then_some(())
    });
    assert!(sent.is_some(), "logger {arguments:?} fails");
}

/// Starts weir with a source for each transport.
fn start(scene: &Scene) -> Weir {
    let listen = "listen = \"127.0.0.1:0\"";
    let path = scene.dir().join("weir.sock");
    let unix = format!("protocol = \"unix_stream\"\npath = \"{}\"", path.display());
    let relp = format!("protocol = \"relp\"\n{listen}");
    let udp = format!("protocol = \"udp\"\n{listen}");
    let sources = [source("tcp", listen), source("udp", &udp), source("relp", &relp)];
    scene.start(&(sources.concat() + &source("stream", &unix) + &file(scene)))
}

fn port(weir: &Weir, name: &str) -> String {
    weir.source_address(name).port().to_string()
}

/// Waits for `count` records and returns how often each message arrived; each is from `prog`.
fn arrived(scene: &Scene, weir: &Weir, count: u64) -> BTreeMap<String, usize> {
    let books = weir.wait_books("all arrived", PATIENCE, |b| b.delivered(OUTPUT) >= count);
    books.assert_balanced();
    let mut messages = BTreeMap::new();
    for record in records(&scene.dir().join("out.log")) {
        assert_eq!(record["resource"]["service.name"], "prog", "{record}");
        // rsyslog's own template for RFC 5424 keeps the blank after the tag.
        let body = record["body"].as_str().unwrap().trim_start();
        *messages.entry(body.to_owned()).or_default() += 1;
    }
    messages
}

#[test]
fn logger_is_understood_over_every_transport() {
    let scene = Scene::new();
    let mut weir = start(&scene);
    let (tcp, udp) = (port(&weir, "tcp"), port(&weir, "udp"));
    let path = scene.dir().join("weir.sock").display().to_string();
    let tcp = ["--server", "127.0.0.1", "--tcp", "--port", &tcp];
    log(&tcp, "tcp");
    log(&[&tcp[..], &["--rfc3164", "--octet-count"]].concat(), "counted");
    log(&[&tcp[..], &["--rfc5424=notime"]].concat(), "no time");
    log(&["--server", "127.0.0.1", "--udp", "--port", &udp], "udp");
    log(&["--socket", &path, "--socket-errors=on"], "stream");
    let messages = arrived(&scene, &weir, 5);
    for text in ["tcp", "counted", "no time", "udp", "stream"] {
        assert_eq!(messages.get(text), Some(&1), "{text}: {messages:?}");
    }
    weir.stop();
}

#[test]
fn rsyslog_is_understood_over_every_transport() {
    let scene = Scene::new();
    let mut weir = start(&scene);
    let socket = scene.dir().join("rsyslog.sock").display().to_string();
    let action = |keys: &str| format!("action(type=\"omfwd\" target=\"127.0.0.1\" {keys})\n");
    let (tcp, udp, relp) = (port(&weir, "tcp"), port(&weir, "udp"), port(&weir, "relp"));
    let config = format!(
        "global(workDirectory=\"{}\")\nmodule(load=\"imuxsock\" SysSock.Use=\"off\")\n\
         module(load=\"omrelp\")\ninput(type=\"imuxsock\" Socket=\"{socket}\")\n\
         if $programname != 'prog' then stop\n\
         action(type=\"omrelp\" target=\"127.0.0.1\" port=\"{relp}\")\n{}{}{}",
        scene.dir().display(),
        action(&format!("port=\"{tcp}\" protocol=\"tcp\"")),
        action(&format!(
            "port=\"{tcp}\" protocol=\"tcp\" TCP_Framing=\"octet-counted\" \
             template=\"RSYSLOG_SyslogProtocol23Format\""
        )),
        action(&format!("port=\"{udp}\" protocol=\"udp\"")),
    );
    let path = scene.dir().join("rsyslog.conf");
    std::fs::write(&path, config).unwrap();
    let mut command = Command::new(root().join("usr/sbin/rsyslogd"));
    command.args(["-n", "-i", "NONE", "-M"]).arg(root().join("usr/lib/x86_64-linux-gnu/rsyslog"));
    let _sender = Sender::start(
        {
            command.arg("-f").arg(path);
            command
        },
        scene.dir(),
    );
    for number in 0..20 {
        log(&["--socket", &socket, "--socket-errors=on"], &format!("message {number}"));
    }
    let messages = arrived(&scene, &weir, 80);
    for number in 0..20 {
        let text = format!("message {number}");
        assert_eq!(messages.get(&text), Some(&4), "{text}: {messages:?}");
    }
    weir.stop();
}

#[test]
fn syslog_ng_is_understood_over_every_transport() {
    let scene = Scene::new();
    let mut weir = start(&scene);
    let dir = scene.dir();
    let (tcp, udp) = (port(&weir, "tcp"), port(&weir, "udp"));
    let config = format!(
        "@version: 3.38\noptions {{ keep-hostname(yes); use-dns(no); stats-freq(0); }};\n\
         source s {{ unix-dgram(\"{0}/ng.sock\"); }};\n\
         destination d1 {{ syslog(\"127.0.0.1\" port({tcp}) transport(\"tcp\") persist-name(\"d1\")); }};\n\
         destination d2 {{ network(\"127.0.0.1\" port({tcp}) transport(\"tcp\")); }};\n\
         destination d3 {{ network(\"127.0.0.1\" port({udp}) transport(\"udp\")); }};\n\
         destination d4 {{ unix-stream(\"{0}/weir.sock\"); }};\n\
         log {{ source(s); destination(d1); destination(d2); destination(d3); destination(d4); }};\n",
        dir.display()
    );
    std::fs::write(dir.join("ng.conf"), config).unwrap();
    let mut command = Command::new(root().join("usr/sbin/syslog-ng"));
    command.args(["--foreground", "--no-caps", "--module-path"]);
    command.arg(root().join("usr/lib/syslog-ng/3.38"));
    for (option, name) in
        [("--persist-file", "ng.persist"), ("--control", "ng.ctl"), ("--pidfile", "ng.pid")]
    {
        command.arg(option).arg(dir.join(name));
    }
    command.arg("--cfgfile").arg(dir.join("ng.conf"));
    let _sender = Sender::start(command, dir);
    let socket = dir.join("ng.sock").display().to_string();
    for number in 0..20 {
        log(&["--udp", "--socket", &socket, "--socket-errors=on"], &format!("message {number}"));
    }
    let messages = arrived(&scene, &weir, 80);
    for number in 0..20 {
        let text = format!("message {number}");
        assert_eq!(messages.get(&text), Some(&4), "{text}: {messages:?}");
    }
    weir.stop();
}
