//! Alternative names of attributes.
//!
//! Invariant: no value is lost or mixed with others: if the new name already has a value, or would
//! be too long, everything stays as it is.

use super::{Attributes, PATH_BYTES_MAX};

/// Old and new paths, in the order in which they are renamed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Renames(Vec<(String, String)>);

impl Renames {
    /// Creates renames from each first path, and those below it, to the second.
    pub fn new(paths: Vec<(String, String)>) -> Self {
        Self(paths)
    }

    /// Returns from and to which path, in order.
    pub fn paths(&self) -> &[(String, String)] {
        &self.0
    }

    /// Returns true if nothing is renamed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Renames the attributes of a record: those outside its body and those in it.
    pub fn apply(&self, own: &mut Attributes, inside: &mut Attributes) {
        for (from, to) in &self.0 {
            let [from, to] = [from, to].map(String::as_bytes);
            let is_there = |path| own.has(path) || inside.has(path);
            if !is_there(from) || is_there(to) {
                continue;
            }
            let fits = |path: &[u8]| {
                below(path, from).is_none_or(|rest| to.len() + rest.len() <= PATH_BYTES_MAX)
            };
            if !own.iter().chain(inside.iter()).all(|(path, _)| fits(path)) {
                continue;
            }
            for attributes in [&mut *own, &mut *inside] {
                attributes.change_paths(|path| below(path, from).map(|rest| [to, rest].concat()));
            }
        }
    }
}

/// Returns what follows `parent` in a path that is equal to it, or below it.
pub(super) fn below<'a>(path: &'a [u8], parent: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(parent).filter(|rest| matches!(rest, [] | [b'.', ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(own: &str, inside: &str) -> [String; 2] {
        let names = [("http.response.status", "http.status_code"), ("req", "http"), ("x", "y")];
        let names = names.map(|(from, to)| (from.to_owned(), to.to_owned()));
        let mut both = [own, inside].map(|object| {
            let mut attributes = Attributes::new();
            attributes.read_json(object.as_bytes()).unwrap();
            attributes
        });
        let [own, inside] = &mut both;
        Renames::new(names.to_vec()).apply(own, inside);
        both.map(|attributes| {
            let mut out = Vec::new();
            attributes.write_json(&mut out);
            String::from_utf8(out).unwrap()
        })
    }

    #[test]
    fn attributes_move_with_what_is_below_them_and_keep_their_types() {
        let [own, inside] = renamed(
            r#"{"x":[1,"a"]}"#,
            r#"{"http":{"response":{"status":500}},"request":1,"x":2}"#,
        );
        assert_eq!(own, r#"{"y":[1,"a"]}"#);
        assert_eq!(inside, r#"{"http.status_code":500,"request":1,"y":2}"#);
        let [_, inside] = renamed("{}", r#"{"req":{"method":"GET","url":"/"}}"#);
        assert_eq!(inside, r#"{"http.method":"GET","http.url":"/"}"#);
    }

    #[test]
    fn a_name_that_would_be_too_long_is_left_alone() {
        let key = "k".repeat(PATH_BYTES_MAX - 4);
        let object = format!(r#"{{"req.{key}":null}}"#);
        assert_eq!(renamed("{}", &object)[1], object);
    }

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let [own, inside] = renamed(r#"{"y":1}"#, r#"{"x":2,"req":{"a":1},"http":{"b":1}}"#);
        assert_eq!(
            (own.as_str(), inside.as_str()),
            (r#"{"y":1}"#, r#"{"x":2,"req.a":1,"http.b":1}"#,)
        );
    }
}
