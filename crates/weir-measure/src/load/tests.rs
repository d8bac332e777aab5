//! What was reported as written is in the files, exactly once and intact.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

/// Returns the IDs of every line in a directory, with parts joined, by stream: generation, number,
/// intact.
fn ids(plan: &LoadPlan) -> BTreeMap<String, Vec<(u64, u64, bool)>> {
    let mut ids: BTreeMap<String, Vec<(u64, u64, bool)>> = BTreeMap::new();
    let mut open: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for file in files(&plan.dir) {
        let content = std::fs::read(file).unwrap();
        for line in content.split_inclusive(|byte| *byte == b'\n') {
            let (std, body, last) = decoded(plan.format, line);
            let whole = open.entry(std).or_default();
            whole.extend_from_slice(&body);
            if last {
                let id = LineId::parse(whole).unwrap();
                let stream = ids.entry(id.stream.to_owned()).or_default();
                stream.push((id.generation, id.seq, id.intact));
                whole.clear();
            }
        }
    }
    ids
}

/// Returns the files of a directory: first rotated ones, oldest (highest number) first, then
/// current ones.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|path| {
        let number = path.extension().unwrap().to_string_lossy().parse().unwrap_or(0_i64);
        (-number, path.clone())
    });
    files
}

fn decoded(format: LineFormat, line: &[u8]) -> (String, Vec<u8>, bool) {
    let line = line.strip_suffix(b"\n").unwrap();
    match format {
        LineFormat::Docker => {
            let value: Value = serde_json::from_slice(line).unwrap();
            let log = value["log"].as_str().unwrap();
            let body = log.strip_suffix('\n').unwrap_or(log);
            let std = value["stream"].as_str().unwrap().to_owned();
            (std, body.as_bytes().to_vec(), log.ends_with('\n'))
        }
        LineFormat::Cri => {
            let mut fields = line.splitn(4, |byte| *byte == b' ').skip(1);
            let std = String::from_utf8(fields.next().unwrap().to_vec()).unwrap();
            let last = fields.next().unwrap() == b"F";
            (std, fields.next().unwrap().to_vec(), last)
        }
        LineFormat::Raw => (String::new(), line.to_vec(), true),
        LineFormat::Json => {
            let value: Value = serde_json::from_slice(line).unwrap();
            (String::new(), value["message"].as_str().unwrap().as_bytes().to_vec(), true)
        }
    }
}

fn check(plan: &LoadPlan) -> LoadReport {
    let report = run(plan, |_| ControlFlow::Continue(())).unwrap();
    let ids = ids(plan);
    for stream in &report.streams {
        let ids = &ids[&stream.name];
        assert_eq!(ids.len() as u64, stream.lines, "{}", stream.name);
        for (seq, id) in (stream.first_seq..).zip(ids) {
            assert_eq!((id.1, id.2), (seq, true), "{} in {:?}", stream.name, plan.format);
        }
    }
    report
}

#[test]
fn every_format_carries_every_content() {
    for format in [LineFormat::Docker, LineFormat::Cri, LineFormat::Raw, LineFormat::Json] {
        for content in [Content::Plain, Content::Escapes, Content::InvalidUtf8] {
            let dir = tempfile::tempdir().unwrap();
            let mut plan = LoadPlan::new(dir.path());
            (plan.format, plan.content) = (format, content);
            plan.streams = vec!["a".to_owned(), "b".to_owned()];
            plan.lines = Some(400);
            plan.body_bytes = (0, 3000);
            plan.first_seq = 7;
            assert_eq!(check(&plan).lines, 400);
        }
    }
}

#[test]
fn cut_lines_span_rotations_and_interleave_with_stderr() {
    for format in [LineFormat::Docker, LineFormat::Cri] {
        let dir = tempfile::tempdir().unwrap();
        let mut plan = LoadPlan::new(dir.path());
        plan.format = format;
        plan.content = Content::Escapes;
        (plan.partial, plan.interleave, plan.line_by_line) = (true, true, true);
        plan.body_bytes = (10_000, 100_000);
        plan.lines = Some(60);
        plan.rotation = Some(Rotation::Rename { when: RotateWhen::Bytes(50_000), keep: 1000 });
        let report = check(&plan);
        assert!(report.rotations > 30, "{report}");
        assert_eq!(report.streams.len(), 2);
    }
}

#[test]
fn a_paced_run_writes_the_number_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = LoadPlan::new(dir.path());
    plan.lines_per_second = Some(10_000.0);
    plan.duration = Some(Duration::from_millis(100));
    plan.line_by_line = true;
    let report = check(&plan);
    assert!(report.lines >= 990, "{report}");
    assert!(report.lines as f64 <= report.seconds * 10_000.0 + 1.0, "{report}");
}

#[test]
fn the_caller_can_stop_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let plan = LoadPlan::new(dir.path());
    let report =
        run(
            &plan,
            |lines| {
                if lines >= 1000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        )
        .unwrap();
    assert!(report.lines >= 1000 && report.lines < 2000);
}

#[test]
fn container_layouts_are_those_of_the_runtimes() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = LoadPlan::new(dir.path());
    plan.layout = Layout::Containers;
    plan.lines = Some(1);
    run(&plan, |_| ControlFlow::Continue(())).unwrap();
    let log = plan.path("app");
    assert!(log.file_name().unwrap().to_string_lossy().len() == 64 + "-json.log".len());
    assert!(log.with_file_name("config.v2.json").exists());
    plan.format = LineFormat::Cri;
    assert!(plan.path("app").ends_with("main/0.log"));
}
