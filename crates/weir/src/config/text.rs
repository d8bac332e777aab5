//! The configuration files as text: which file was read, and how a byte position is shown to people
//! (file, line, column).
//!
//! Invariants: files are read once, at most [`FILE_BYTES_MAX`] of each and at most [`FILES_MAX`] of
//! a directory; a [`SourceLocation`] is always inside the file that it names.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum size of a configuration file. Thousands of components fit; a log file named by mistake
/// does not.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Maximum number of `*.toml` files in a directory.
const FILES_MAX: usize = 1_000;

/// A byte range of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    /// Index of the file in [`Texts`].
    pub(crate) file: usize,
    /// Byte range.
    pub(crate) span: Range<usize>,
}

/// One configuration file.
#[derive(Debug)]
pub(crate) struct Text {
    /// Its name as shown to people.
    pub(crate) name: String,
    /// Its content.
    pub(crate) text: String,
}

/// All configuration files, in the order in which they are merged.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    files: Vec<Text>,
}

/// Line, column and the whole line of a place. Line and column count from 1, the column in
/// characters.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) number: usize,
    pub(crate) column: usize,
    pub(crate) text: &'a str,
    /// Characters of the place that are on this line, at least 1.
    pub(crate) width: usize,
}

/// Why configuration files could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    #[error("{} could not be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{} exceeds the 4 MiB limit for configuration files", path.display())]
    TooLarge { path: PathBuf },
    #[error("{} is not UTF-8 text (byte {offset})", path.display())]
    NotUtf8 { path: PathBuf, offset: usize },
    #[error("the directory {} contains no *.toml files", path.display())]
    NoFiles { path: PathBuf },
    #[error("the directory {} contains more than 1,000 *.toml files", path.display())]
    TooManyFiles { path: PathBuf },
}

impl Texts {
    /// Reads a file, or all `*.toml` files of a directory in the order of their names.
    pub(crate) fn read(path: &Path) -> Result<Self, TextError> {
        let mut texts = Self::default();
        for file in files_of(path)? {
            let text = read_file(&file)?;
            texts.add(&file.display().to_string(), text);
        }
        Ok(texts)
    }

    /// Adds a file that is already in memory; returns its index.
    pub(crate) fn add(&mut self, name: &str, text: String) -> usize {
        self.files.push(Text { name: name.to_owned(), text });
        self.files.len() - 1
    }

    /// All files.
    pub(crate) fn files(&self) -> &[Text] {
        &self.files
    }

    /// Name of the file that a place is in.
    pub(crate) fn name(&self, location: &SourceLocation) -> &str {
        &self.files[location.file].name
    }

    /// The first line of a place.
    pub(crate) fn line(&self, location: &SourceLocation) -> Line<'_> {
        let text = &self.files[location.file].text;
        let start = floor_char_boundary(text, location.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let end = floor_char_boundary(text, location.span.end).clamp(start, line_end);
        Line {
            number: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            text: text[line_start..line_end].trim_end_matches('\r'),
            width: text[start..end].trim_end().chars().count().max(1),
        }
    }
}

fn floor_char_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, TextError> {
    let unreadable = |error| TextError::Unreadable { path: path.to_owned(), error };
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let hidden = file.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        if !hidden && file.extension().is_some_and(|e| e == "toml") {
            files.push(file);
        }
    }
    files.sort();
    match files.len() {
        0 => Err(TextError::NoFiles { path: path.to_owned() }),
        n if n > FILES_MAX => Err(TextError::TooManyFiles { path: path.to_owned() }),
        _ => Ok(files),
    }
}

fn read_file(path: &Path) -> Result<String, TextError> {
    use std::io::Read as _;
    let unreadable = |error| TextError::Unreadable { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TextError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|e| TextError::NotUtf8 {
        path: path.to_owned(),
        offset: e.utf8_error().valid_up_to(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let mut texts = Texts::default();
        texts.add("weir.toml", "a = 1\nä = \"ö\"\r\nlast".to_owned());
        let line = texts.line(&SourceLocation { file: 0, span: 11..15 });
        assert_eq!((line.number, line.column, line.text, line.width), (2, 5, "ä = \"ö\"", 3));
        let line = texts.line(&SourceLocation { file: 0, span: 99..120 });
        assert_eq!((line.number, line.column, line.text, line.width), (3, 5, "last", 1));
    }

    #[test]
    fn directory_reads_toml_files_in_name_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["20-b.toml", "10-a.toml", "note.txt", ".hidden.toml"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let texts = Texts::read(dir.path()).unwrap();
        let read: Vec<_> = texts.files().iter().map(|f| f.text.as_str()).collect();
        assert_eq!(read, ["10-a.toml", "20-b.toml"]);
    }
}
