//! Which rules were in force when: a number for each change of the rules, kept across restarts.
//!
//! A frame contains the generation that routed it. The file `rules.json` in the data directory
//! records when each generation began and which outputs it routed to; a hash shows whether the
//! rules of this start are those of the last one. Routing itself does not depend on it: a frame
//! contains its own.
//!
//! Invariants: the file is replaced atomically, by rename; one of a later release is rejected and
//! left untouched; a damaged one is moved aside, and a checksum distinguishes it from one of a
//! later release; a failure to write it stops nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_host::Disk;
use weir_host::units::format_rfc3339;
use weir_model::hash64;

use crate::config::PipelinePlan;

const FORMAT: &str = "weir.rules.v1";
/// Maximum number of generations in the file.
const GENERATIONS_MAX: usize = 1000;
/// Maximum size of the file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The generations so far.
#[derive(Debug)]
pub struct Generations {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    all: Vec<Generation>,
}

/// Why weir does not start with the existing file.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} has format {format:?}, which this release does not support; it was left untouched",
    path.display()
)]
pub struct GenerationsError {
    path: PathBuf,
    format: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Generation {
    number: u32,
    began: String,
    rules_hash: String,
    rules: Vec<String>,
    outputs: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    format: String,
    #[serde(default)]
    generations: Vec<Generation>,
}

/// The member of the document that verifies that the others are unchanged, in the format of every
/// release.
const CHECK: &str = "check";

/// Returns the checksum of all other members.
fn check_of(document: &Value) -> Value {
    Value::String(format!("{:016x}", hash64(document.to_string().as_bytes())))
}

impl Generations {
    /// Reads the file in `data_dir`, if there is one.
    pub fn open(disk: Arc<dyn Disk>, data_dir: &Path) -> Result<Self, GenerationsError> {
        let path = data_dir.join("rules.json");
        let mut all = Vec::new();
        match read(disk.as_ref(), &path) {
            Ok(Contents::None) => {}
            Ok(Contents::Known(document)) => all = document.generations,
            Ok(Contents::Later(format)) => return Err(GenerationsError { path, format }),
            Err(error) => set_aside(disk.as_ref(), &path, &error),
        }
        Ok(Self { disk, path, all })
    }

    /// Returns the number of the plan's rules over destinations of these names: that of the last
    /// generation if they are the same, otherwise a new one that begins now.
    pub fn number(&mut self, plan: &PipelinePlan, names: &[String], now_ns: i64) -> u32 {
        let text = format!("{:?} {:?}", plan.rules, plan.default_to);
        let rules_hash = format!("{:016x}", hash64(text.as_bytes()));
        let outputs = names.to_vec();
        let last = self.all.last();
        if let Some(last) = last.filter(|l| l.rules_hash == rules_hash && l.outputs == outputs) {
            return last.number;
        }
        let number = last.map_or(1, |last| last.number.saturating_add(1));
        let rules = plan.rules.iter().map(|rule| rule.name.clone()).collect();
        let began = format_rfc3339(now_ns);
        self.all.push(Generation { number, began, rules_hash, rules, outputs });
        let surplus = self.all.len().saturating_sub(GENERATIONS_MAX);
        self.all.drain(..surplus);
        if let Err(error) = self.write() {
            tracing::warn!("cannot write {}: {error}", self.path.display());
        }
        number
    }

    fn write(&self) -> io::Result<()> {
        let document = Document { format: FORMAT.to_owned(), generations: self.all.clone() };
        let mut document = serde_json::to_value(document)?;
        document[CHECK] = check_of(&document);
        let text = serde_json::to_vec_pretty(&document)?;
        weir_host::replace_file(&*self.disk, &self.path, &text)
    }
}

/// The content of the file.
enum Contents {
    None,
    Known(Document),
    /// Another format, by name.
    Later(String),
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<Contents> {
    let bytes = match weir_host::read_file(disk, path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::None),
        Err(error) => return Err(error),
    };
    let mut document: Value = serde_json::from_slice(&bytes)?;
    let check = document.as_object_mut().and_then(|members| members.remove(CHECK));
    if check != Some(check_of(&document)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "wrong checksum"));
    }
    match document["format"].as_str() {
        Some(FORMAT) => Ok(Contents::Known(serde_json::from_value(document)?)),
        later => Ok(Contents::Later(later.unwrap_or_default().to_owned())),
    }
}

fn set_aside(disk: &dyn Disk, path: &Path, error: &io::Error) {
    let aside = path.with_extension("json.damaged");
    // If that fails too, the next generation overwrites it.
    let _moved = disk.rename(path, &aside);
    tracing::warn!("cannot read {} ({error}): moved aside to {}", path.display(), aside.display());
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_host::RealDisk;

    use super::*;

    fn plan(dir: &Path, default_to: &[&str]) -> PipelinePlan {
        PipelinePlan {
            data_dir: dir.to_owned(),
            ring_bytes: 0,
            journal_bytes_max: 0,
            disk_free_bytes_min: 0,
            taken_bytes_max: 0,
            sources: Vec::new(),
            outputs: Vec::new(),
            rules: Vec::new(),
            drains: None,
            default_to: Some(default_to.iter().map(|name| (*name).to_owned()).collect()),
        }
    }

    fn open(dir: &Path) -> Result<Generations, GenerationsError> {
        Generations::open(Arc::new(RealDisk), dir)
    }

    #[test]
    fn a_generation_survives_restarts_and_grows_with_each_change() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (plan(dir.path(), &["a"]), plan(dir.path(), &["b"]));
        assert_eq!(open(dir.path()).unwrap().number(&a, &[], 0), 1);
        let mut generations = open(dir.path()).unwrap();
        assert_eq!([generations.number(&a, &[], 0), generations.number(&b, &[], 0)], [1, 2]);
        assert_eq!(open(dir.path()).unwrap().number(&a, &[], 0), 3);
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_one_of_a_later_release_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules.json");
        std::fs::write(&path, b"{\"format\": \"weir.ru").unwrap();
        assert_eq!(open(dir.path()).unwrap().number(&plan(dir.path(), &[]), &[], 0), 1);
        assert!(dir.path().join("rules.json.damaged").exists());
        for mut later in [
            json!({"format": "weir.rules.v9", "other": 1}),
            json!({"format": "weir.rules.v9", "generations": [{"number": "one"}]}),
        ] {
            later[CHECK] = check_of(&later);
            let later = later.to_string();
            std::fs::write(&path, &later).unwrap();
            assert!(open(dir.path()).unwrap_err().to_string().contains("weir.rules.v9"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), later);
        }
    }

    #[test]
    fn no_damaged_byte_is_taken_for_a_later_release_or_for_another_generation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules.json");
        let plan = plan(dir.path(), &["a"]);
        assert_eq!(open(dir.path()).unwrap().number(&plan, &[], 0), 1);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                std::fs::write(&path, damaged).unwrap();
                // Moved aside and restarted; or a space was changed into other white space.
                assert_eq!(open(dir.path()).unwrap().number(&plan, &[], 0), 1, "{at} {bit}");
            }
        }
    }
}
