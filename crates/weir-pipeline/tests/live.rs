//! Live tails on a real journal: joining order, and the memory limit of all tails together.

use std::sync::{Arc, Barrier};

use weir_host::RealClock;
use weir_pipeline::config::OutputKind;
use weir_pipeline::live::{LiveError, LiveEvent, LiveTail};
use weir_pipeline::rule::{RuleSwitch, Rules};
use weir_pipeline::view::PipelineView;

mod harness;
use harness::{DEADLINE, Line, Rig};

fn start() -> (Rig, Arc<PipelineView>) {
    let rig = Rig::start(OutputKind::Blackhole);
    let rules = Arc::new(RuleSwitch::new(Rules::to_all(1, [1]), 0));
    let clock = Arc::new(RealClock::new());
    let view = PipelineView::new(rig.journal.clone(), Vec::new(), Vec::new(), rules, clock);
    (rig, Arc::new(view))
}

fn join(view: &PipelineView, query: &str) -> Result<LiveTail, LiveError> {
    LiveTail::new(view, &weir_expr::parse(query).unwrap())
}

/// Returns the bodies of the next rows.
fn next(tail: &mut LiveTail) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let event = runtime.block_on(async { tokio::time::timeout(DEADLINE, tail.next()).await });
    let Ok(Some(LiveEvent::Rows(rows))) = event else { panic!("no rows: {event:?}") };
    let mut bodies = Vec::new();
    rows.for_each(
        || true,
        |_, _, _| String::new(),
        |json| {
            let row: serde_json::Value = serde_json::from_slice(json).unwrap();
            bodies.push(row["body"].as_str().unwrap().to_owned());
        },
    );
    bodies
}

fn lines(words: &[&str]) -> Vec<Line> {
    words.iter().map(|word| Line::new(*word)).collect()
}

/// Joins with nearly as much as allowed, with patterns that no other tail has.
fn large(n: usize) -> String {
    ["a", "b", "c", "d"].map(|letter| format!("/{letter}{n}[a-z]{{20000}}/")).join(" OR ")
}

#[test]
fn the_total_size_of_live_tails_is_limited_and_freed_on_leave() {
    let (mut rig, view) = start();
    let mut tails: Vec<LiveTail> = (0..8).map(|n| join(&view, &large(n)).unwrap()).collect();
    let refused = join(&view, &large(8)).unwrap_err();
    assert!(matches!(refused, LiveError::TooLargeTogether { max: 0x200_0000 }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("all live tails together would exceed 32MiB"), "{text}");
    // An expression that another tail follows takes no more memory, and small ones still fit.
    tails.push(join(&view, &large(3)).unwrap());
    tails.push(join(&view, "/[0-9]e/").unwrap());
    rig.append(1, &lines(&["0e"]));
    assert_eq!(next(tails.last_mut().unwrap()), ["0e"]);
    let last = tails.pop();
    tails.truncate(7);
    tails.extend(last);
    tails.push(join(&view, &large(8)).expect("one has left"));
    rig.append(1, &lines(&["1e"]));
    assert_eq!(next(&mut tails[7]), ["1e"], "the others continue");
    drop(tails);
    rig.drain();
    rig.finish();
}

#[test]
fn a_single_live_tail_has_its_own_limit() {
    let (rig, view) = start();
    let error = join(&view, &format!("{} OR /e[a-z]{{20000}}/", large(0))).unwrap_err();
    assert!(matches!(error, LiveError::Expression(_)), "{error}");
    rig.finish();
}

#[test]
fn tails_that_join_concurrently_get_their_own_expressions() {
    let (mut rig, view) = start();
    let words: Vec<String> = (0..16).map(|n| format!("word{n}")).collect();
    let at_once = Barrier::new(words.len());
    for round in 0..20 {
        let join_one = |word: &str| {
            // Some join with expressions that others follow, or followed until now.
            let passing = join(&view, &words[round % 3]);
            at_once.wait();
            drop(passing);
            join(&view, word).unwrap()
        };
        let mut tails: Vec<LiveTail> = std::thread::scope(|scope| {
            let joining = words.iter().map(|word| scope.spawn(|| join_one(word)));
            let joining: Vec<_> = joining.collect();
            joining.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let all: Vec<&str> = words.iter().map(String::as_str).collect();
        rig.append(1, &lines(&all));
        for (tail, word) in tails.iter_mut().zip(&words) {
            assert_eq!(next(tail), [word.as_str()], "round {round}");
        }
    }
    rig.drain();
    let (book, _dir) = rig.finish();
    assert_eq!(book.book.delivered, 20 * 16);
}
