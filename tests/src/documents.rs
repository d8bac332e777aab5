//! The examples in the documentation work: their configurations are valid and their commands exist.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_testkit::{Pki, binary};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests are a folder of the repository")
}

/// Returns the documentation pages, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let guide = std::fs::read_dir(repository().join("docs/guide")).expect("there is a guide");
    let mut paths: Vec<PathBuf> =
        guide.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.push(repository().join("README.md"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a page is text");
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the code blocks of one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    let blocks = page.split(opening.as_str()).skip(1);
    blocks.filter_map(|rest| rest.split_once("```").map(|(block, _)| block)).collect()
}

/// Asserts that `weir config check` or `test` reports no problem.
#[track_caller]
fn assert_passes(command: &str, file: &Path, block: &str, page: &Path) {
    let mut weir = Command::new(binary());
    weir.args(["config", command, "-c"]).arg(file);
    let names = [
        "HEC_TOKEN",
        "ARCHIVE_TOKEN",
        "DASHBOARD_TOKEN",
        "INTAKE_TOKEN",
        "UAA_SECRET",
        "DD_API_KEY",
        "WEIR_TOKENS",
        "WEIR_READ_TOKENS",
    ];
    for (number, name) in names.into_iter().enumerate() {
        weir.env(name, format!("00000000-0000-0000-0000-{number:012}"));
    }
    let output = weir.output().expect("weir can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{block}\n{said}", page.display());
}

#[test]
fn every_configuration_in_the_documents_is_valid_and_passes_its_tests() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let file = dir.path().join("weir.toml");
    let (certificate, key) = Pki::new().server_pem();
    for (name, content) in [("tls.crt", certificate), ("tls.key", key)] {
        std::fs::write(dir.path().join(name), content).expect("it can be written");
    }
    let own = dir.path().display().to_string() + "/tls.";
    let mut checked = 0;
    for (path, page) in pages() {
        for block in blocks(&page, "toml") {
            // Files named in an example do not exist on this machine.
            let block = block
                .replace("/etc/ssl/splunk-ca.pem", "/etc/ssl/certs/ca-certificates.crt")
                .replace("/etc/weir/tls.", &own);
            std::fs::write(&file, &block).expect("it can be written");
            assert_passes("check", &file, &block, &path);
            if block.contains("[[test]]") {
                assert_passes("test", &file, &block, &path);
            }
            checked += 1;
        }
    }
    assert!(checked > 8, "only {checked} configurations were found");
}

#[test]
fn every_weir_command_in_the_documents_exists() {
    for (path, page) in pages() {
        for line in blocks(&page, "sh").iter().flat_map(|block| block.lines()) {
            let Some(rest) = line.strip_prefix("weir ") else { continue };
            let words: Vec<&str> = rest.split_whitespace().take_while(|w| *w != "#").collect();
            let names: Vec<&str> =
                words.iter().copied().take_while(|w| !w.starts_with(['-', '>'])).collect();
            let mut help = Command::new(binary());
            let output = help.args(&names).arg("--help").output().expect("weir can be started");
            assert!(output.status.success(), "{}: {line}", path.display());
            let text = String::from_utf8_lossy(&output.stdout);
            for option in words.iter().filter(|w| w.starts_with("--") && **w != "--help") {
                assert!(text.contains(*option), "{}: {line}: no {option}", path.display());
            }
        }
    }
}
