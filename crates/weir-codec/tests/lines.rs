//! Single lines: joined, truncated, stripped, flushed, handed over; and the books.

mod common;

use common::{OBSERVED_NS, Outcome, Plan, Reader, bodies, read_file};
use weir_codec::{Format, LineDecoder, StateError, parse_rfc3339};
use weir_model::limits::{LINE_BYTES_DEFAULT, LINE_BYTES_MAX, READ_BLOCK_BYTES};
use weir_model::{AbandonReason, DiscardReason, RecordFlags, SourceBook};

const T: &str = "2026-11-21T19:12:31.3Z";

fn docker(stream: &str, log: &str) -> String {
    let log = serde_json::to_string(log).unwrap();
    format!("{{\"log\":{log},\"stream\":\"{stream}\",\"time\":\"{T}\"}}\n")
}

fn read(format: Format, file: &str) -> Outcome {
    read_file(file.as_bytes(), format, LINE_BYTES_DEFAULT, &Plan::at_once())
}

fn counts(book: &SourceBook) -> [u64; 5] {
    [book.lines, book.records, book.joined, book.discarded_total(), book.malformed]
}

#[test]
fn docker_parts_are_joined_per_stream() {
    let file = docker("stdout", "a1 ")
        + &docker("stderr", "b1 ")
        + &docker("stdout", "a2 ")
        + &docker("stderr", "b2\n")
        + &docker("stdout", "\n");
    let out = read(Format::DockerJson, &file);
    assert_eq!(bodies(&out), ["b1 b2", "a1 a2 "]);
    assert_eq!(counts(&out.book), [5, 2, 3, 0, 0]);
    let joined = RecordFlags::JOINED.with(RecordFlags::JSON_ESCAPED);
    assert_eq!(out.records[0].flags, joined.with(RecordFlags::STDERR));
    assert_eq!(out.records[1].flags, joined.with(RecordFlags::STDOUT));
    assert_eq!(out.records[1].time_ns, parse_rfc3339(T.as_bytes()).unwrap());
}

#[test]
fn a_backslash_before_n_at_the_end_is_no_line_feed() {
    let file = docker("stdout", "path c:\\n") + &docker("stdout", "ew\\\\\n");
    assert_eq!(bodies(&read(Format::DockerJson, &file)), ["path c:\\new\\\\"]);
}

#[test]
fn what_moby_writes_for_bad_bytes_is_read() {
    let line = r#"{"log":"a\u003cb\u003e\u0026\u0001\ufffd end\r\n","stream":"stdout","time":"2026-11-21T19:12:31Z"}"#;
    let out = read(Format::DockerJson, line);
    assert_eq!(bodies(&out), ["a<b>&\u{1}\u{fffd} end\r"]);
}

#[test]
fn cri_parts_are_joined_with_the_time_of_the_first() {
    let file = "2026-11-21T19:12:05.6Z stdout P part1-\n2026-11-21T19:12:05.61Z stderr F err line\n\
                2026-11-21T19:12:05.7Z stdout F part2\n2026-11-21T19:12:06Z stdout F:extra tagged\r\n\
                2026-11-21T19:12:07Z stdout F \n";
    let out = read(Format::Cri, file);
    assert_eq!(bodies(&out), ["err line", "part1-part2", "tagged", ""]);
    assert_eq!(out.records[1].time_ns, parse_rfc3339(b"2026-11-21T19:12:05.6Z").unwrap());
    assert_eq!(counts(&out.book), [5, 4, 1, 0, 0]);
}

#[test]
fn invalid_utf8_survives() {
    let mut file = b"2026-11-21T19:12:05Z stdout F a\xff\0b\n".to_vec();
    let out = read_file(&file, Format::Cri, LINE_BYTES_DEFAULT, &Plan::at_once());
    assert_eq!(out.records[0].body, b"a\xff\0b");
    file.drain(..30);
    let out = read_file(&file, Format::Raw, LINE_BYTES_DEFAULT, &Plan::at_once());
    assert_eq!(out.records[0].body, b"a\xff\0b");
}

#[test]
fn malformed_lines_are_kept_and_counted() {
    for (format, line) in [
        (Format::DockerJson, "{\"log\":\"cut in ha"),
        (Format::DockerJson, "{\"log\":\"bad \\x escape\\n\"}"),
        (Format::DockerJson, "{\"log\":\"raw \t tab\\n\"}"),
        (Format::DockerJson, "{\"message\":\"of another format\"}"),
        (Format::DockerJson, ""),
        (Format::Cri, "no such line"),
        (Format::Json, "{\"cut\":"),
        (Format::Logfmt, "plain words"),
    ] {
        let out = read(format, &format!("{line}\n"));
        assert_eq!(bodies(&out), [line]);
        assert_eq!(out.records[0].flags, RecordFlags::MALFORMED, "{line}");
        assert_eq!(out.records[0].time_ns, OBSERVED_NS);
        assert_eq!(counts(&out.book), [1, 1, 0, 0, 1]);
    }
}

#[test]
fn nul_runs_are_discarded_and_counted() {
    let whole = docker("stdout", "whole\n");
    let file = format!("\0\0\0\n\0\0{whole}{{\"log\":\"half\0\0\0\0{whole}\0\0");
    let out = read(Format::DockerJson, &file);
    assert_eq!(bodies(&out), ["whole", "{\"log\":\"half", "whole"]);
    assert_eq!(out.book.discarded[DiscardReason::NulBytes as usize], 4);
    assert_eq!(counts(&out.book), [7, 3, 0, 4, 1]);

    let hole = "\0".repeat(3 * READ_BLOCK_BYTES + 5);
    let out = read(Format::Raw, &format!("a\n{hole}b\n{hole}"));
    assert_eq!(bodies(&out), ["a", "b"]);
    assert_eq!(out.book.discarded_total(), 2);
}

#[test]
fn a_byte_order_mark_is_stripped_at_the_start_only() {
    let out = read(Format::Raw, "\u{feff}a\n\u{feff}b\n");
    assert_eq!(bodies(&out), ["a", "\u{feff}b"]);
    assert_eq!(bodies(&read(Format::Raw, "\u{feff}")), Vec::<String>::new());
}

#[test]
fn utf16_is_kept_as_it_stands_and_counted() {
    let file = b"\xff\xfea\0\n\0b\0\n\0";
    let out = read_file(file, Format::DockerJson, LINE_BYTES_DEFAULT, &Plan::at_once());
    let all: Vec<u8> = out.records.iter().flat_map(|r| [&r.body[..], b"\n"].concat()).collect();
    assert_eq!(all[..file.len()], *file);
    assert_eq!(out.book.malformed, out.book.records);
}

#[test]
fn a_line_over_the_limit_is_cut_kept_and_counted_over_many_blocks() {
    let long = "é".repeat(READ_BLOCK_BYTES * 2);
    let head = "2026-11-21T19:12:05Z stdout F ";
    for (format, line) in [
        (Format::Raw, format!("x{long}\n")),
        (Format::Cri, format!("{head}x{long}\n")),
        (Format::DockerJson, docker("stdout", &format!("x{long}\n"))),
        (Format::Json, format!("{{\"x\":\"{long}\"}}\n")),
    ] {
        let file = format!("{line}{}", if format == Format::Cri { head } else { "" });
        let out = read_file(file.as_bytes(), format, 1000, &Plan::at_once());
        let cut = &out.records[0];
        assert_eq!(cut.body.len(), if format == Format::Json { 1000 } else { 999 }, "{format:?}");
        assert!(std::str::from_utf8(&cut.body).is_ok());
        assert!(cut.flags.contains(RecordFlags::TRUNCATED));
        assert_eq!(out.book.truncated, 1);
        let abandoned = out.book.bytes_abandoned[AbandonReason::LineTooLong as usize];
        assert!(abandoned > 2 * READ_BLOCK_BYTES as u64);
        assert_eq!(abandoned + out.book.bytes_read, file.len() as u64);
    }
}

#[test]
fn a_joined_line_over_the_limit_is_cut_and_its_later_parts_dropped() {
    let file = docker("stdout", "12345\n")
        + &docker("stdout", "1234567")
        + &docker("stdout", "8\u{1f600}")
        + &docker("stdout", "more")
        + &docker("stdout", "end\n")
        + &docker("stdout", "next\n");
    let out = read_file(file.as_bytes(), Format::DockerJson, 10, &Plan::at_once());
    assert_eq!(bodies(&out), ["12345", "12345678", "next"]);
    let flags: Vec<bool> =
        out.records.iter().map(|r| r.flags.contains(RecordFlags::TRUNCATED)).collect();
    assert_eq!(flags, [false, true, false]);
    assert_eq!(counts(&out.book), [6, 3, 3, 0, 0]);
    assert_eq!(out.book.abandoned_total(), 4 + 4 + 3);
}

#[test]
fn open_lines_of_both_streams_share_one_bound() {
    let part = "x".repeat(100_000);
    let file = docker("stdout", &part)
        + &docker("stderr", &part)
        + &docker("stdout", &part)
        + &docker("stderr", &part)
        + &docker("stdout", "a\n")
        + &docker("stderr", "b\n");
    let plan = Plan { growth: vec![usize::MAX], seal_after: 1, forget: true };
    let out = read_file(file.as_bytes(), Format::DockerJson, LINE_BYTES_MAX, &plan);
    let lens: Vec<usize> = out.records.iter().map(|r| r.body.len()).collect();
    assert_eq!(lens, [LINE_BYTES_MAX - 100_000, 100_000]);
    assert_eq!(out.book.truncated, 2);
}

/// The extremes for which the sizes of frame, block, line and state were chosen.
#[test]
fn a_fresh_builder_always_makes_progress() {
    for streams in [["stdout", "stdout"], ["stdout", "stderr"], ["stderr", "stdout"]] {
        let len = LINE_BYTES_MAX / 2 - 10_000;
        let mut file = String::new();
        for round in 0..4 {
            for stream in streams {
                let end = if round % 2 == 1 { "\n" } else { "" };
                file += &docker(stream, &format!("{}{end}", "y".repeat(len)));
            }
            file += &docker(streams[0], &"p".repeat(READ_BLOCK_BYTES - 200));
            file += &docker(streams[1], &"q".repeat(READ_BLOCK_BYTES - 200));
            file += &"{}\n".repeat(10_000);
        }
        let plan =
            Plan { growth: vec![usize::MAX, 1, READ_BLOCK_BYTES], seal_after: 7, forget: true };
        let out = read_file(file.as_bytes(), Format::DockerJson, LINE_BYTES_MAX, &plan);
        assert_eq!(out.book.lines, 4 * 10_004);
    }
}

#[test]
fn lines_of_one_byte_fill_frames_without_end() {
    let file = "\n".repeat(50_000);
    let out = read(Format::Raw, &file);
    assert_eq!(counts(&out.book), [50_000, 50_000, 0, 0, 0]);
}

#[test]
fn the_longest_line_fits_and_one_byte_more_is_cut() {
    for limit in [LINE_BYTES_DEFAULT, LINE_BYTES_MAX] {
        let fits = "x".repeat(READ_BLOCK_BYTES - 1);
        let out =
            read_file(format!("{fits}\nb\n").as_bytes(), Format::Raw, limit, &Plan::at_once());
        assert_eq!((out.records[0].body.len(), out.book.truncated), (READ_BLOCK_BYTES - 1, 0));
        let out =
            read_file(format!("{fits}x\nb\n").as_bytes(), Format::Raw, limit, &Plan::at_once());
        assert_eq!((out.records[0].body.len(), out.book.truncated), (READ_BLOCK_BYTES - 1, 1));
        assert_eq!(out.book.abandoned_total(), 2);
        assert_eq!(out.records.len(), 2);
    }
}

#[test]
fn a_flushed_line_has_a_position_of_its_own_and_reading_goes_on_behind() {
    let start = docker("stdout", "open") + &docker("stderr", "too") + &docker("stdout", "+");
    let file = format!("{start}\n\n{}", docker("stdout", "later\n"));
    let mut reader = Reader::new(start.as_bytes(), Format::DockerJson, LINE_BYTES_DEFAULT);
    reader.read_to_end(&Plan::at_once());
    assert_eq!(reader.out.book.lines, 0, "open lines are not counted yet");
    assert_eq!(reader.decoder.partials().lines(), 3);
    reader.flush();
    let at = start.len() as u64;
    assert_eq!(reader.decoder.file_offset(), at);
    assert_eq!(reader.decoder.position(), at + 2);
    // The file continues with the shortest possible lines.
    let mut state = Vec::new();
    reader.decoder.state(&mut state);
    let mut reader = reader.grown(file.as_bytes());
    reader.decoder = LineDecoder::restore(&state, LINE_BYTES_DEFAULT, at + 2).unwrap();
    assert_eq!(reader.decoder.file_offset(), at);
    reader.read_to_end(&Plan::at_once());
    assert_eq!(bodies(&reader.out), ["open+", "too", "", "", "later"]);
    let offsets: Vec<u64> = reader.out.records.iter().map(|r| r.offset).collect();
    assert_eq!(offsets, [at + 1, at + 2, at + 3, at + 4, file.len() as u64]);
    assert_eq!(counts(&reader.out.book), [6, 5, 1, 0, 2]);
}

#[test]
fn open_lines_go_on_in_the_next_file_of_the_container() {
    let first = docker("stdout", "one ") + &docker("stdout", "two ");
    let second = docker("stdout", "three\n");
    let mut old = Reader::new(first.as_bytes(), Format::DockerJson, LINE_BYTES_DEFAULT);
    old.read_to_end(&Plan::at_once());
    let mut state = Vec::new();
    old.decoder.state(&mut state);
    assert_eq!(LineDecoder::partials_of(&state).as_ref(), Ok(old.decoder.partials()));
    let mut new = Reader::new(second.as_bytes(), Format::DockerJson, LINE_BYTES_DEFAULT);
    new.adopt(&mut old.decoder);
    new.read_to_end(&Plan::at_once());
    assert_eq!(bodies(&new.out), ["one two three"]);
    assert_eq!(counts(&new.out.book), [3, 1, 2, 0, 0]);
    assert_eq!(counts(&old.out.book), [0; 5]);
}

#[test]
fn partial_lines_that_are_adopted_late_stand_in_front() {
    let read_open = |text: &str, limit| {
        let file = docker("stderr", text);
        let mut reader = Reader::new(file.as_bytes(), Format::DockerJson, limit);
        reader.read_to_end(&Plan::at_once());
        reader.decoder.take_partials()
    };
    let mut book = SourceBook::default();
    let mut decoder = LineDecoder::new(Format::DockerJson, 6, 0);
    decoder.adopt_partials(read_open("newer", 100), &mut book);
    decoder.adopt_partials(read_open("old ", 100), &mut book);
    assert_eq!((decoder.partials().lines(), decoder.partials().bytes()), (2, 6));
    assert_eq!(book, SourceBook::default());

    let mut cri = LineDecoder::new(Format::Cri, 100, 0);
    cri.adopt_partials(decoder.take_partials(), &mut book);
    assert!(cri.partials().is_empty());
    assert_eq!(counts(&book), [2, 0, 0, 2, 0]);
    assert_eq!(book.discarded[DiscardReason::PartialLost as usize], 2);
}

#[test]
fn attributes_are_kept_on_whole_joined_and_flushed_lines() {
    let line = |log: &str| {
        format!(
            "{{\"log\":\"{log}\",\"stream\":\"stdout\",\"attrs\":{{\"tag\":\"a\\\"b\"}},\"time\":\"{T}\"}}\n"
        )
    };
    let file = line("whole\\n")
        + &line("jo")
        + &line("ined\\n")
        + &docker("stdout", "none\n")
        + &line("open");
    let out = read(Format::DockerJson, &file);
    assert_eq!(bodies(&out), ["whole", "joined", "none", "open"]);
    let attributes: Vec<&str> =
        out.records.iter().map(|r| std::str::from_utf8(&r.attributes).unwrap()).collect();
    let tag = r#"{"tag":"a\"b"}"#;
    assert_eq!(attributes, [tag, tag, "", tag]);
}

#[test]
fn a_damaged_state_is_refused() {
    let file = docker("stdout", "o\\pen") + &docker("stderr", "x");
    let mut reader = Reader::new(file.as_bytes(), Format::DockerJson, LINE_BYTES_DEFAULT);
    reader.read_to_end(&Plan::at_once());
    let mut state = Vec::new();
    reader.decoder.state(&mut state);
    let restore = |state: &[u8]| LineDecoder::restore(state, 100, 1000).map(|_| ());
    assert_eq!(restore(&state), Ok(()));
    for len in 0..state.len() {
        assert_eq!(restore(&state[..len]), Err(StateError::Damaged), "cut to {len}");
    }
    state[0] = 3;
    assert_eq!(restore(&state), Err(StateError::Version(3)));
    state[0] = 1;
    let body = state.windows(2).position(|w| w == b"\\\\").unwrap();
    state[body + 1] = b'q';
    assert_eq!(restore(&state), Err(StateError::Damaged));
    assert_eq!(restore(&[1, 1, 0, 255, 255, 0, 0]), Err(StateError::Damaged), "lead before 0");
}

#[test]
fn a_line_cut_to_nothing_still_has_a_position_of_its_own() {
    let file = b"\0~\x9f more\n";
    let plan = Plan { growth: vec![1], seal_after: 1, forget: true };
    let in_pieces = read_file(file, Format::Raw, 1, &plan);
    assert_eq!(in_pieces, read_file(file, Format::Raw, 1, &Plan::at_once()));
    assert_eq!((in_pieces.records[0].offset, in_pieces.records[0].body.len()), (2, 1));
}
