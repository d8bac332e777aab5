//! Live tails: over HTTP and in the terminal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use weir_testkit::{PATIENCE, Weir, Writing, binary, wait_for};

use crate::scene::Scene;

const NOWHERE: &str = "[output.nowhere]\ntype = \"blackhole\"\n";

/// A reader of server-sent events.
pub(crate) struct Reader(BufReader<TcpStream>);

/// Name, ID and data of an event.
type Event = (String, String, Value);

impl Reader {
    /// Reads a live tail.
    pub(crate) fn start(weir: &Weir, query: &str, last_id: Option<&str>) -> Self {
        let last = last_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let mut reader = Self::of(weir, &format!("/weir/v1/tail?{query}"), &last);
        // The first comment: from now on nothing is missed.
        assert!(reader.line().starts_with(':'));
        reader
    }

    /// Reads the events of a path.
    pub(crate) fn of(weir: &Weir, path: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(weir.api().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n").unwrap();
        let mut reader = Self(BufReader::new(stream));
        assert!(reader.line().starts_with("HTTP/1.0 200"));
        while !reader.line().is_empty() {}
        reader
    }

    /// Reads everything up to the end of the stream.
    pub(crate) fn read_to_end(mut self) {
        self.0.read_to_end(&mut Vec::new()).expect("the stream is ended");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the answer ended");
        line.trim_end().to_owned()
    }

    pub(crate) fn event(&mut self) -> Event {
        let (mut name, mut id, mut data) = (String::new(), String::new(), Value::Null);
        loop {
            let line = self.line();
            match line.split_once(": ") {
                Some(("event", value)) => value.clone_into(&mut name),
                Some(("id", value)) => value.clone_into(&mut id),
                Some(("data", value)) => data = serde_json::from_str(value).unwrap(),
                _ if line.is_empty() && !name.is_empty() => return (name, id, data),
                _ => {}
            }
        }
    }

    /// Returns the next rows: IDs and messages.
    pub(crate) fn rows(&mut self, count: usize) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        while rows.len() < count {
            let (name, id, data) = self.event();
            assert_ne!(name, "gap", "{data}");
            if name == "row" {
                rows.push((id, data["body"].as_str().unwrap().to_owned()));
            }
        }
        rows
    }
}

/// Starts a weir that follows a file of raw lines.
fn following() -> (Scene, Weir, File) {
    let scene = Scene::new();
    let file = File::create(scene.logs().join("app.log")).unwrap();
    let weir = scene.start(&(scene.source("raw") + NOWHERE));
    (scene, weir, file)
}

fn write_numbers(file: &mut File, numbers: std::ops::Range<u32>) {
    for n in numbers {
        let parity = ["even", "odd"][n as usize % 2];
        file.write_all(format!("{parity} {n}\n").as_bytes()).unwrap();
    }
}

fn evens(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.filter(|n| n % 2 == 0).map(|n| format!("even {n}")).collect()
}

fn messages(rows: &[(String, String)]) -> Vec<String> {
    rows.iter().map(|(_, message)| message.clone()).collect()
}

#[test]
fn a_tail_gets_each_record_that_matches_once_and_goes_on_where_it_was_cut_off() {
    let (_scene, mut weir, mut file) = following();
    let mut reader = Reader::start(&weir, "query=even&max_rate=100000", None);
    write_numbers(&mut file, 0..100);
    let rows = reader.rows(50);
    assert_eq!(messages(&rows), evens(0..100));
    let numbers: Vec<&str> = rows.iter().filter_map(|(id, _)| id.rsplit('-').next()).collect();
    let want: Vec<String> = (1..=50).map(|n: u32| n.to_string()).collect();
    assert_eq!(numbers, want);
    // The connection is lost after row 30 has arrived; more lines arrive meanwhile.
    drop(reader);
    write_numbers(&mut file, 100..200);
    weir.wait_books("all is read", PATIENCE, |books| books.records() == 200);
    let mut reader = Reader::start(&weir, "query=even&max_rate=100000", Some(&rows[29].0));
    write_numbers(&mut file, 200..300);
    assert_eq!(messages(&reader.rows(20 + 100)), evens(60..300));
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn a_reader_that_comes_back_while_its_old_connection_stands_takes_its_place() {
    let (_scene, mut weir, mut file) = following();
    let mut old = Reader::start(&weir, "query=", None);
    write_numbers(&mut file, 0..10);
    let rows = old.rows(10);
    let mut new = Reader::start(&weir, "query=", Some(&rows[9].0));
    write_numbers(&mut file, 10..20);
    assert_eq!(new.rows(10).len(), 10);
    // An unknown ID: the number of missed records is unknown, and reported as such.
    let mut stranger = Reader::start(&weir, "query=", Some("12345-7"));
    let (name, _, data) = stranger.event();
    assert_eq!((name.as_str(), &data["records"]), ("gap", &Value::Null));
    weir.stop();
}

#[test]
fn what_a_slow_reader_misses_is_counted_to_the_last_record() {
    let scene = Scene::new();
    let mut weir = scene.start(&(scene.source("docker_json") + NOWHERE));
    let mut reader = Reader::start(&weir, "query=&max_rate=100000", None);
    let mut plan = scene.plan();
    plan.lines = Some(150_000);
    let written = Writing::all(plan);
    weir.wait_books("all is read", PATIENCE, |books| books.records() == written.lines);
    // Nothing has been read from the tail so far; now read all of it.
    let (mut rows, mut matched, mut shown, mut missed) = (0, 0, 0, 0);
    while matched + missed < written.lines {
        let (name, _, data) = reader.event();
        let count = |key: &str| data[key].as_u64().unwrap();
        match name.as_str() {
            "row" => rows += 1,
            "stat" => {
                matched += count("matched");
                shown += count("shown");
                missed += count("missed");
                assert_eq!(count("matched"), count("shown") + count("skipped"));
            }
            _ => {}
        }
    }
    assert_eq!(matched + missed, written.lines);
    assert_eq!(rows, shown);
    assert!(missed > 0, "the reader was slow");
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn fifty_readers_get_their_envelopes_and_a_stuck_one_does_not_affect_them() {
    let (_scene, mut weir, mut file) = following();
    let _stuck = Reader::start(&weir, "query=&max_rate=100000", None);
    // Five expressions, ten times each: the last digit of the number.
    let query = |n: usize| format!("query=/[{}{}]$/%20(even%20OR%20odd)", n % 5, n % 5 + 5);
    let mut readers: Vec<Reader> = (0..50).map(|n| Reader::start(&weir, &query(n), None)).collect();
    write_numbers(&mut file, 0..1000);
    for (n, reader) in readers.iter_mut().enumerate() {
        let mine = |number: &u32| number % 5 == n as u32 % 5;
        let want: Vec<String> = (0..1000)
            .filter(mine)
            .map(|number| format!("{} {number}", ["even", "odd"][number as usize % 2]))
            .collect();
        assert_eq!(messages(&reader.rows(200)), want, "reader {n}");
    }
    // Some leave; the others continue.
    readers.truncate(7);
    write_numbers(&mut file, 1000..1010);
    for reader in &mut readers {
        assert_eq!(reader.rows(2).len(), 2);
    }
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn more_tails_than_are_allowed_are_refused_until_one_ends() {
    let scene = Scene::new();
    let limits = "[api.queries]\ntails_max = 2\n";
    let mut weir = scene.start(&(scene.source("raw") + NOWHERE + limits));
    let readers = [0, 1].map(|_| Reader::start(&weir, "query=", None));
    let (status, body) = weir.get("/weir/v1/tail?query=").unwrap();
    assert!(status == 503 && body.contains("api.queries.tails_max"), "{body}");
    let (_, page) = weir.get("/metrics").unwrap();
    for row in ["\nweir_live_tails 2\n", "\nweir_live_tails_refused_total 1\n"] {
        assert!(page.contains(row), "{page}");
    }
    drop(readers);
    let left = wait_for(PATIENCE, || {
        let (_, page) = weir.get("/metrics").unwrap();
        page.contains("\nweir_live_tails 0\n").then_some(())
    });
    assert!(left.is_some(), "they never ended");
    Reader::start(&weir, "query=", None);
    weir.stop();
}

#[test]
fn tails_with_more_regular_expressions_than_fit_are_refused() {
    let (_scene, mut weir, mut file) = following();
    let query = |n: usize| {
        let patterns = ["a", "b", "c", "d"].map(|x| format!("/{x}{n}[a-z]%7B20000%7D/"));
        format!("query={}", patterns.join("%20OR%20"))
    };
    let mut readers: Vec<Reader> = (0..8).map(|n| Reader::start(&weir, &query(n), None)).collect();
    let (status, body) = weir.get(&format!("/weir/v1/tail?{}", query(8))).unwrap();
    let problem: Value = serde_json::from_str(&body).unwrap();
    let title = problem["title"].as_str().unwrap();
    assert!(status == 503 && title.contains("would exceed 32MiB"), "{problem}");
    assert!(weir.metrics().contains("\nweir_live_tails_refused_total 1\n"));
    // The others continue, and so do those with small expressions.
    readers.push(Reader::start(&weir, "query=even", None));
    write_numbers(&mut file, 0..10);
    assert_eq!(messages(&readers[8].rows(5)), evens(0..10));
    weir.books().assert_balanced();
    weir.stop();
}

#[test]
fn computed_attributes_of_the_configuration_can_be_followed() {
    let scene = Scene::new();
    let mut file = File::create(scene.logs().join("app.log")).unwrap();
    let measures =
        "[store.calculated_fields]\ndelay = \"@total - @service\"\ntwice = \"@delay * 2\"\n";
    let mut weir = scene.start(&(scene.source("raw") + NOWHERE + measures));
    let mut one = Reader::start(&weir, "query=@delay:%3E5", None);
    let mut two = Reader::start(&weir, "query=@twice:20%20@service:1", None);
    for total in [5, 11, 30, 3] {
        writeln!(file, "{{\"total\":{total},\"service\":1}}").unwrap();
    }
    let rows = messages(&one.rows(2));
    assert!(rows[0].contains("11") && rows[1].contains("30"), "{rows:?}");
    assert!(two.rows(1)[0].1.contains("11"));
    weir.stop();
}

#[test]
fn severities_of_text_and_new_names_can_be_tailed() {
    let scene = Scene::new();
    let mut file = File::create(scene.logs().join("app.log")).unwrap();
    let names = "[store.remap]\n\"res.status\" = \"http.status_code\"\n";
    let mut weir = scene.start(&(scene.source("raw") + NOWHERE + names));
    let mut codes = Reader::start(&weir, "query=@http.status_code:500", None);
    let mut errors = Reader::start(&weir, "query=status:error", None);
    for line in [
        r#"{"res":{"status":500}}"#,
        r#"{"res":{"status":200}}"#,
        "2026-01-31 12:00:00 no ERROR found",
        "2026-01-31 12:00:00 ERROR failed",
    ] {
        writeln!(file, "{line}").unwrap();
    }
    assert!(codes.rows(1)[0].1.contains("500"));
    assert!(errors.rows(1)[0].1.contains("failed"));
    weir.stop();
}

fn tail(weir: &Weir, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(["tail", "--api", &weir.api().unwrap().to_string()]).args(args);
    command
}

/// Writes lines until the command has ended.
fn until_it_ends(mut command: Command, file: &mut File) -> Output {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut next = 0;
    let ended = wait_for(PATIENCE, || {
        write_numbers(file, next..next + 2);
        next += 2;
        child.try_wait().unwrap()
    });
    assert!(ended.is_some(), "it never ended");
    child.wait_with_output().unwrap()
}

#[test]
fn the_terminal_shows_rows_as_text_json_or_raw() {
    let (_scene, mut weir, mut file) = following();
    let raw = until_it_ends(tail(&weir, &["-n", "3", "-o", "raw", "even"]), &mut file);
    let text = String::from_utf8(raw.stdout).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("even ")).count(), 3, "{text}");
    let json = until_it_ends(tail(&weir, &["-n", "2", "-o", "json", "-even"]), &mut file);
    for line in json.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let row: Value = serde_json::from_slice(line).unwrap();
        assert!(row["body"].as_str().unwrap().starts_with("odd "), "{row}");
        assert_eq!(row["source"], "logs");
    }
    let text = until_it_ends(tail(&weir, &["-n", "1"]), &mut file);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("Z app.log ") && text.lines().count() == 1, "{text}");
    weir.stop();
}

#[test]
fn a_wrong_expression_is_shown_with_its_place() {
    let (_scene, mut weir, _file) = following();
    let output = tail(&weir, &["service:(web OR"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("unexpected end") && said.contains('^'), "{said}");
    let (status, body) = weir.get("/weir/v1/tail?query=a%20AND").unwrap();
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &problem["span"]["start"]), (400, &Value::from(5)), "{problem}");
    let (status, _) = weir.get("/weir/v1/tail?max_rate=0").unwrap();
    assert_eq!(status, 400);
    weir.stop();
}

#[test]
fn a_tail_in_the_terminal_outlives_weir_and_waits_for_the_next() {
    let (scene, mut weir, _file) = following();
    let mut child =
        tail(&weir, &["-o", "raw"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut plan = scene.plan();
    plan.lines_per_second = Some(500.0);
    let writing = Writing::start(plan);
    let mut row = String::new();
    // Kept until the end: a tail ends when its output is not read.
    let mut rows = BufReader::new(child.stdout.take().unwrap());
    rows.read_line(&mut row).unwrap();
    assert!(!row.is_empty(), "it ended");
    writing.stop();
    weir.stop();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("reconnecting"), "{said}");
    assert_eq!(child.try_wait().unwrap(), None, "it waits");
    child.kill().unwrap();
    child.wait().unwrap();
}
