//! All tests of one field, indexed so that a value finds those that it passes.
//!
//! Equality and prefix tests are looked up, however many there are; only the others are tried
//! individually.

use std::collections::HashMap;

use super::AtomId;
use crate::ast::{Field, Literal, Test};
use crate::fields::Value;
use crate::number::Numeric;
use crate::value::{canonical, passes};

/// The tests of one field.
#[derive(Debug)]
pub(crate) struct FieldIndex {
    pub(crate) field: Field,
    /// All tests of this field.
    pub(crate) atoms: Vec<AtomId>,
    texts: HashMap<Box<[u8]>, Vec<AtomId>>,
    numbers: HashMap<NumberKey, Vec<AtomId>>,
    prefixes: HashMap<Box<[u8]>, Vec<AtomId>>,
    /// Lengths of the prefixes, in ascending order.
    prefix_lengths: Vec<usize>,
    exists: Vec<AtomId>,
    others: Vec<(AtomId, Test)>,
}

/// Equal numbers have equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NumberKey {
    Whole(i64),
    Float(u64),
}

impl NumberKey {
    fn new(number: Numeric) -> Self {
        match number {
            Numeric::Int(whole) => Self::Whole(whole),
            Numeric::Float(float) => {
                let whole = float as i64;
                let is_same =
                    Numeric::Int(whole).compare(number).is_some_and(std::cmp::Ordering::is_eq);
                if is_same { Self::Whole(whole) } else { Self::Float(float.to_bits()) }
            }
        }
    }
}

impl FieldIndex {
    pub(crate) fn new(field: Field) -> Self {
        Self {
            field,
            atoms: Vec::new(),
            texts: HashMap::new(),
            numbers: HashMap::new(),
            prefixes: HashMap::new(),
            prefix_lengths: Vec::new(),
            exists: Vec::new(),
            others: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, atom: AtomId, test: &Test) {
        self.atoms.push(atom);
        match test {
            Test::Exists => self.exists.push(atom),
            Test::Equals(literal) => self.insert_equality(atom, literal),
            Test::Glob(glob) => match glob.as_prefix() {
                Some(prefix) => self.insert_prefix(atom, prefix.as_bytes()),
                None => self.others.push((atom, test.clone())),
            },
            _ => self.others.push((atom, test.clone())),
        }
    }

    fn insert_equality(&mut self, atom: AtomId, literal: &Literal) {
        if let Value::Text(text) = canonical(&self.field, Value::Text(literal.text.as_bytes())) {
            self.texts.entry(text.into()).or_default().push(atom);
        }
        if let Some(number) = literal.number {
            self.numbers.entry(NumberKey::new(number.value)).or_default().push(atom);
        }
    }

    fn insert_prefix(&mut self, atom: AtomId, prefix: &[u8]) {
        if let Err(at) = self.prefix_lengths.binary_search(&prefix.len()) {
            self.prefix_lengths.insert(at, prefix.len());
        }
        self.prefixes.entry(prefix.into()).or_default().push(atom);
    }

    /// Returns whether the test is looked up and never tried individually.
    pub(crate) fn is_looked_up(test: &Test) -> bool {
        match test {
            Test::Exists | Test::Equals(_) => true,
            Test::Glob(glob) => glob.as_prefix().is_some(),
            _ => false,
        }
    }

    /// Calls `passed` for each test that the value passes; `search` runs the regexp of a test.
    pub(crate) fn of_value(
        &self,
        value: Value<'_>,
        buffer: &mut Vec<u8>,
        search: &mut dyn FnMut(AtomId, &[u8]) -> bool,
        passed: &mut dyn FnMut(AtomId),
    ) {
        let value = canonical(&self.field, value);
        if value != Value::Null {
            for atom in &self.exists {
                passed(*atom);
            }
        }
        if let (Value::Int(_) | Value::Float(_), false) = (value, self.numbers.is_empty())
            && let Some(number) = value.number()
            && let Some(atoms) = self.numbers.get(&NumberKey::new(number.value))
        {
            for atom in atoms {
                passed(*atom);
            }
        }
        for (atom, test) in &self.others {
            let is_passed = match test {
                Test::Regexp(_) => value.text(buffer).is_some_and(|text| search(*atom, text)),
                test => passes(&self.field, test, value, buffer),
            };
            if is_passed {
                passed(*atom);
            }
        }
        if self.texts.is_empty() && self.prefixes.is_empty() {
            return;
        }
        let Some(text) = value.text(buffer) else { return };
        if let Some(atoms) = self.texts.get(text) {
            for atom in atoms {
                passed(*atom);
            }
        }
        let lengths = self.prefix_lengths.iter().take_while(|len| **len <= text.len());
        for atoms in lengths.filter_map(|len| self.prefixes.get(&text[..*len])) {
            for atom in atoms {
                passed(*atom);
            }
        }
    }
}
