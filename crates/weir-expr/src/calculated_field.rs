//! Calculated fields: arithmetic over the numbers of a record, with units.
//!
//! ```text
//! sum     := product (("+" | "-") product)*
//! product := factor (("*" | "/") factor)*
//! factor  := number | field | "(" sum ")" | "-" factor
//! field   := "@" path | name          letters, digits, "_" and "."; others in quotes: @"a-b"
//! ```
//!
//! A number may have a unit (`250ms`, `4KiB`). The operands of additions and divisions are
//! converted to a common unit where units are known: a number to that of the field it is combined
//! with, and two fields to the finer of their units; elsewhere a number with a unit means
//! nanoseconds or bytes. A time cannot be added to a size. Integers stay integers while they fit.
//!
//! Invariants: the value in a record is a finite number or none; none if a field has no number, or
//! on division by zero. The unit of a calculated field ([`Units::of`]) is that of its value.

use std::cell::RefCell;

use crate::ast::{Field, Reserved, Span};
use crate::error::ParseError;
use crate::fields::{Body, Fields, Value, Visitor};
use crate::limits::{DEPTH_MAX, EXPRESSION_BYTES_MAX, FORMULA_STEPS_MAX};
use crate::number::{Dimension, Number, Numeric, times};
use crate::unit::{MixedUnits, Unit, Units};

/// An arithmetic expression, ready for evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    /// As written.
    root: Node,
    /// The same, with operands converted to common units.
    evaluated: Node,
    dimension: Option<Dimension>,
}

/// A field that is calculated from others instead of being stored in records.
#[derive(Debug, Clone, PartialEq)]
pub struct CalculatedField {
    /// Its path, without `@`. It takes precedence over an attribute with the same path.
    pub path: String,
    /// How it is calculated.
    pub formula: Formula,
}

impl CalculatedField {
    /// Makes calculated fields aware of each other, so that the value of one is used in its unit.
    /// Of two with the same path the first applies. If some are [too long](Self::too_long), all are
    /// left unchanged.
    #[must_use]
    pub fn resolve_units(
        calculated_fields: impl IntoIterator<Item = Self>,
        units: &Units,
    ) -> Vec<Self> {
        let mut calculated_fields: Vec<Self> = calculated_fields.into_iter().collect();
        if Self::too_long(&calculated_fields).is_some() {
            return calculated_fields;
        }
        let known = calculated_fields.clone();
        for named in &mut calculated_fields {
            named.formula.set_units(&mut |field| units.of(field, &known));
        }
        calculated_fields
    }

    /// Returns the paths of the first cycle: the first calculated field that has no value because
    /// it depends on itself, and the fields that lead back to it.
    pub fn find_cycle(calculated_fields: &[Self]) -> Option<Vec<&str>> {
        calculated_fields.iter().find_map(|named| {
            let mut trail = Vec::new();
            comes_back(&named.path, calculated_fields, &mut trail, &mut Vec::new()).then_some(trail)
        })
    }

    /// Returns the path of the first calculated field that takes more than [`FORMULA_STEPS_MAX`]
    /// steps. In a sequence in which each field uses the previous one twice, the steps double each
    /// time.
    pub fn too_long(calculated_fields: &[Self]) -> Option<&str> {
        let mut known = vec![None; calculated_fields.len()];
        let is_too_long =
            |number: &usize| steps(*number, calculated_fields, &mut known) > FORMULA_STEPS_MAX;
        (0..calculated_fields.len())
            .find(is_too_long)
            .map(|number| calculated_fields[number].path.as_str())
    }
}

/// Returns how many fields are read to compute a calculated field, including those of the
/// calculated fields that it uses. `known` caches the results.
fn steps(number: usize, calculated_fields: &[CalculatedField], known: &mut [Option<u64>]) -> u64 {
    if let Some(steps) = known[number] {
        return steps;
    }
    // A field that depends on itself has no value at that point.
    known[number] = Some(1);
    let mut total = 1_u64;
    for field in calculated_fields[number].formula.fields() {
        let Field::Attribute(path) = field else { continue };
        let inner = calculated_fields.iter().position(|named| named.path == *path);
        let of_inner = inner.map_or(1, |inner| steps(inner, calculated_fields, known));
        total = total.saturating_add(of_inner);
    }
    known[number] = Some(total);
    total
}

/// Returns whether the calculated field, reached through the fields in `trail`, leads back to the
/// first of them.
fn comes_back<'a>(
    path: &'a str,
    calculated_fields: &'a [CalculatedField],
    trail: &mut Vec<&'a str>,
    dead_ends: &mut Vec<&'a str>,
) -> bool {
    if trail.contains(&path) {
        return trail.first() == Some(&path);
    }
    if dead_ends.contains(&path) {
        return false;
    }
    let Some(named) = calculated_fields.iter().find(|named| named.path == path) else {
        return false;
    };
    trail.push(path);
    let leads = |field: &&'a Field| match field {
        Field::Attribute(next) => comes_back(next, calculated_fields, trail, dead_ends),
        _ => false,
    };
    let found = named.formula.fields().iter().any(leads);
    if !found {
        dead_ends.extend(trail.pop());
    }
    found
}

/// A record with calculated fields in addition to its own.
pub struct WithCalculatedFields<'a> {
    record: &'a dyn Fields,
    calculated_fields: &'a [CalculatedField],
    /// Calculated fields being computed: one that depends on itself has no value.
    computing: RefCell<Vec<usize>>,
}

impl<'a> WithCalculatedFields<'a> {
    /// Wraps a record; of calculated fields with the same path the first applies.
    pub fn new(record: &'a dyn Fields, calculated_fields: &'a [CalculatedField]) -> Self {
        Self { record, calculated_fields, computing: RefCell::default() }
    }

    fn calculate(&self, number: usize, visit: &mut Visitor<'_>) {
        if self.computing.borrow().contains(&number) {
            return;
        }
        self.computing.borrow_mut().push(number);
        let value = self.calculated_fields[number].formula.value(self);
        self.computing.borrow_mut().pop();
        match value {
            Some(Numeric::Int(whole)) => visit(Value::Int(whole)),
            Some(Numeric::Float(float)) => visit(Value::Float(float)),
            None => {}
        }
    }
}

impl Fields for WithCalculatedFields<'_> {
    fn body(&self) -> Body<'_> {
        self.record.body()
    }

    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
        let number = match field {
            Field::Attribute(path) => {
                self.calculated_fields.iter().position(|named| named.path == *path)
            }
            _ => None,
        };
        match number {
            Some(number) => self.calculate(number, visit),
            None => self.record.visit(field, visit),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Number(Number),
    /// A field, and its unit where known.
    Field(Field, Option<Unit>),
    Negated(Box<Node>),
    Both(Operator, Box<(Node, Node)>),
    /// The value times this factor, to convert it to a finer unit.
    Finer(i64, Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Formula {
    /// Parses a calculated field.
    ///
    /// # Errors
    /// The error with its location and what was expected there.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let span = Span { start: EXPRESSION_BYTES_MAX, end: text.len() };
            return Err(ParseError::new(text, span, "the expression is too long"));
        }
        let mut parser = Parser { text, at: 0, depth: 0, links: 0 };
        let (root, dimension) = parser.sum()?;
        parser.white_space();
        if parser.at < text.len() {
            return Err(parser.error("unexpected character", "+, -, *, / or the end"));
        }
        let formula = Self { evaluated: root.clone(), root, dimension };
        Ok(formula.in_units(&Units::default()))
    }

    /// Converts operands to common units, with these units of attributes. [`Self::parse`] derives
    /// units only from their names.
    #[must_use]
    pub fn in_units(mut self, units: &Units) -> Self {
        self.set_units(&mut |field| units.of(field, &[]));
        self
    }

    fn set_units(&mut self, of_field: &mut dyn FnMut(&Field) -> Option<Unit>) {
        // Parts with mixed units are left unchanged.
        self.evaluated = self.root.in_one_unit(&mut |field| Ok(of_field(field))).0;
    }

    /// Returns its dimension, if the units determine it.
    pub fn dimension(&self) -> Option<Dimension> {
        self.dimension
    }

    /// Returns the fields that it uses, with repetitions.
    pub fn fields(&self) -> Vec<&Field> {
        let mut fields = Vec::new();
        self.root.add_fields(&mut fields);
        fields
    }

    /// Returns its value in a record.
    pub fn value(&self, record: &dyn Fields) -> Option<Numeric> {
        self.evaluated.value(record)
    }

    /// Returns its unit, based on those of the fields.
    pub(crate) fn unit(&self, of_field: &mut UnitOfField<'_>) -> Result<Option<Unit>, MixedUnits> {
        self.root.in_one_unit(of_field).1
    }
}

/// Returns the unit of a field.
type UnitOfField<'a> = dyn FnMut(&Field) -> Result<Option<Unit>, MixedUnits> + 'a;

impl Node {
    /// Returns the node with operands converted to common units, and the unit of its value.
    fn in_one_unit(
        &self,
        of_field: &mut UnitOfField<'_>,
    ) -> (Self, Result<Option<Unit>, MixedUnits>) {
        match self {
            Self::Number(number) => (self.clone(), Ok(number.dimension.map(Unit::base))),
            Self::Field(field, _) => {
                let unit = of_field(field);
                (Self::Field(field.clone(), unit.ok().flatten()), unit)
            }
            Self::Negated(inner) => {
                let (inner, unit) = inner.in_one_unit(of_field);
                (Self::Negated(Box::new(inner)), unit)
            }
            Self::Both(operator, parts) => {
                let (mut left, left_unit) = parts.0.in_one_unit(of_field);
                let (mut right, right_unit) = parts.1.in_one_unit(of_field);
                let unit = match (left_unit, right_unit) {
                    (Ok(Some(a)), Ok(Some(b))) if operator.wants_one_unit(a, b) => {
                        let unit = left.common_unit(a, &right, b);
                        left = left.converted(a, unit);
                        right = right.converted(b, unit);
                        operator.unit(Some(unit), Some(unit))
                    }
                    (Ok(a), Ok(b)) => operator.unit(a, b),
                    (Err(mixed), _) | (_, Err(mixed)) => Err(mixed),
                };
                (Self::Both(*operator, Box::new((left, right))), unit)
            }
            Self::Finer(_, inner) => inner.in_one_unit(of_field),
        }
    }

    /// Returns the common unit: for a number and a field that of the field, otherwise the finer
    /// one.
    fn common_unit(&self, own: Unit, other: &Self, of_other: Unit) -> Unit {
        match (self, other) {
            (Self::Number(_), Self::Number(_)) => own,
            (Self::Number(_), _) => of_other,
            (_, Self::Number(_)) => own,
            _ if of_other.base_units() % own.base_units() == 0 => own,
            _ if own.base_units() % of_other.base_units() == 0 => of_other,
            // Such as kB and KiB.
            _ => Unit::base(own.dimension()),
        }
    }

    /// Converts a value from one unit to the other.
    fn converted(self, own: Unit, unit: Unit) -> Self {
        match self {
            Self::Number(number) => Self::Number(number.in_unit(unit)),
            node if own == unit => node,
            node => Self::Finer(own.base_units() / unit.base_units(), Box::new(node)),
        }
    }

    /// Returns its dimension, based on the names of its fields.
    fn dimension(&self) -> Option<Dimension> {
        let (_, unit) = self.in_one_unit(&mut |field| Ok(Units::default().of(field, &[])));
        unit.ok().flatten().map(Unit::dimension)
    }

    fn add_fields<'a>(&'a self, fields: &mut Vec<&'a Field>) {
        match self {
            Self::Number(_) => {}
            Self::Field(field, _) => fields.push(field),
            Self::Negated(inner) | Self::Finer(_, inner) => inner.add_fields(fields),
            Self::Both(_, parts) => {
                parts.0.add_fields(fields);
                parts.1.add_fields(fields);
            }
        }
    }

    fn value(&self, record: &dyn Fields) -> Option<Numeric> {
        match self {
            Self::Number(number) => Some(number.value),
            Self::Field(field, unit) => {
                let mut first = None;
                record.visit(field, &mut |value| first = first.or_else(|| value.number()));
                first.map(|number| unit.map_or(number, |unit| number.in_unit(unit)).value)
            }
            Self::Negated(inner) => Operator::Subtract.apply(Numeric::Int(0), inner.value(record)?),
            Self::Both(operator, parts) => {
                operator.apply(parts.0.value(record)?, parts.1.value(record)?)
            }
            Self::Finer(factor, inner) => times(inner.value(record)?, *factor),
        }
    }
}

impl Operator {
    /// Returns whether both operands must and can be converted to the same unit.
    fn wants_one_unit(self, left: Unit, right: Unit) -> bool {
        self != Self::Multiply && left.dimension() == right.dimension()
    }

    fn apply(self, left: Numeric, right: Numeric) -> Option<Numeric> {
        if let (Numeric::Int(a), Numeric::Int(b)) = (left, right) {
            let whole = match self {
                Self::Add => a.checked_add(b),
                Self::Subtract => a.checked_sub(b),
                Self::Multiply => a.checked_mul(b),
                Self::Divide => a.checked_rem(b).filter(|rest| *rest == 0).and(a.checked_div(b)),
            };
            if let Some(whole) = whole {
                return Some(Numeric::Int(whole));
            }
        }
        let (a, b) = (left.float(), right.float());
        let value = match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
        };
        value.is_finite().then_some(Numeric::Float(value))
    }

    /// Returns the dimension of the result for those of the operands, or the reason why they cannot
    /// be combined.
    fn dimension(
        self,
        left: Option<Dimension>,
        right: Option<Dimension>,
    ) -> Result<Option<Dimension>, &'static str> {
        match (self, left, right) {
            (Self::Add | Self::Subtract, Some(a), Some(b)) if a != b => {
                Err("a time and a size cannot be added or subtracted")
            }
            (Self::Multiply, Some(_), Some(_)) => {
                Err("two times or sizes cannot be multiplied; omit the unit of one of them")
            }
            (Self::Add | Self::Subtract | Self::Multiply, a, b) => Ok(a.or(b)),
            (Self::Divide, a, None) => Ok(a),
            (Self::Divide, Some(a), Some(b)) if a != b => {
                Err("a time cannot be divided by a size, nor a size by a time")
            }
            // The dimension of a field may be unknown: this may be a time divided by a time.
            (Self::Divide, _, Some(_)) => Ok(None),
        }
    }
}

type Typed = (Node, Option<Dimension>);

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Number of operators so far: each makes the tree one level deeper, wherever it is.
    links: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn white_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn error(&self, message: &str, expected: &str) -> ParseError {
        let len = self.rest().chars().next().map_or(0, char::len_utf8);
        let span = Span { start: self.at, end: self.at + len };
        ParseError::new(self.text, span, message).expected(expected)
    }

    fn take(&mut self, symbols: &[(char, Operator)]) -> Option<(usize, Operator)> {
        self.white_space();
        let found = self.rest().chars().next()?;
        let (_, operator) = symbols.iter().find(|(symbol, _)| *symbol == found)?;
        self.at += found.len_utf8();
        Some((self.at - 1, *operator))
    }

    fn sum(&mut self) -> Result<Typed, ParseError> {
        self.chain(&[('+', Operator::Add), ('-', Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Typed, ParseError> {
        self.chain(&[('*', Operator::Multiply), ('/', Operator::Divide)], Self::factor)
    }

    fn chain(
        &mut self,
        symbols: &[(char, Operator)],
        part: fn(&mut Self) -> Result<Typed, ParseError>,
    ) -> Result<Typed, ParseError> {
        let (mut node, mut dimension) = part(self)?;
        while let Some((place, operator)) = self.take(symbols) {
            self.links += 1;
            if self.links > DEPTH_MAX {
                return Err(self.error("too many operators", "at most 100"));
            }
            let (right, right_dimension) = part(self)?;
            let error = |reason: &str| {
                ParseError::new(self.text, Span { start: place, end: place + 1 }, reason)
            };
            dimension = operator.dimension(dimension, right_dimension).map_err(error)?;
            if matches!(operator, Operator::Add | Operator::Subtract) {
                operator.dimension(node.dimension(), right.dimension()).map_err(error)?;
            }
            node = Node::Both(operator, Box::new((node, right)));
        }
        Ok((node, dimension))
    }

    fn factor(&mut self) -> Result<Typed, ParseError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("too deeply nested", "at most 100 levels"));
        }
        self.white_space();
        let factor = match self.rest().chars().next() {
            Some('(') => self.group(),
            Some('-') => {
                self.at += 1;
                let (node, dimension) = self.factor()?;
                Ok((Node::Negated(Box::new(node)), dimension))
            }
            Some('@') => {
                self.at += 1;
                self.path().map(|path| (Node::Field(Field::Attribute(path), None), None))
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' || c == '"' => {
                let name = self.path()?;
                let field = match Reserved::from_name(&name) {
                    Some(key) => Field::Reserved(key),
                    None => Field::Tag(name),
                };
                Ok((Node::Field(field, None), None))
            }
            _ => Err(self.error("missing operand", "a number, a field such as @duration, or (")),
        };
        self.depth -= 1;
        factor
    }

    fn group(&mut self) -> Result<Typed, ParseError> {
        self.at += 1;
        let inner = self.sum()?;
        self.white_space();
        if !self.rest().starts_with(')') {
            return Err(self.error("the parenthesis is not closed", ")"));
        }
        self.at += 1;
        Ok(inner)
    }

    fn path(&mut self) -> Result<String, ParseError> {
        if let Some(quoted) = self.rest().strip_prefix('"') {
            let Some(end) = quoted.find('"').filter(|end| *end > 0) else {
                return Err(self.error("the quoted name is empty or not closed", "a name and \""));
            };
            let path = quoted[..end].to_owned();
            self.at += end + 2;
            return Ok(path);
        }
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let len = self.rest().find(|c| !is_name(c)).unwrap_or(self.rest().len());
        if len == 0 {
            return Err(self.error("missing name after @", "a path such as @duration"));
        }
        let path = self.rest()[..len].to_owned();
        self.at += len;
        Ok(path)
    }

    fn number(&mut self) -> Result<Typed, ParseError> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_');
        let len = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        let Some(number) = Number::parse(&self.rest()[..len]) else {
            let span = Span { start: self.at, end: self.at + len };
            return Err(ParseError::new(self.text, span, "not a number")
                .expected("a number such as 1.5, 250ms or 4KiB"));
        };
        self.at += len;
        Ok((Node::Number(number), number.dimension))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{Body, Value, Visitor};
    use proptest::prelude::*;

    struct Sample;

    impl Fields for Sample {
        fn body(&self) -> Body<'_> {
            Body { bytes: b"", json_escaped: false }
        }

        fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
            match field {
                Field::Attribute(path) => match path.as_str() {
                    "total_time" => visit(Value::Int(300_000_000)),
                    "service_time" => visit(Value::Text(b"120000000")),
                    "half" => visit(Value::Float(0.5)),
                    "a-b" => visit(Value::Int(7)),
                    "name" => visit(Value::Text(b"joe")),
                    "wait_ms" => visit(Value::Int(250)),
                    "text_ms" => visit(Value::Text(b"0.1s")),
                    "pause_seconds" => visit(Value::Float(1.5)),
                    "msec" => visit(Value::Float(1_700_000_000.735)),
                    "x_request_start" => visit(Value::Text(b"t=1700000000.123")),
                    _ => {}
                },
                Field::Tag(key) if key == "replicas" => visit(Value::Int(3)),
                _ => {}
            }
        }
    }

    fn value(text: &str) -> Option<Numeric> {
        Formula::parse(text).unwrap().value(&Sample)
    }

    #[test]
    fn arithmetic_follows_the_usual_order() {
        let cases = [
            ("@total_time - @service_time", Numeric::Int(180_000_000)),
            ("2 + 3 * 4 - 1", Numeric::Int(13)),
            ("(2 + 3) * -4", Numeric::Int(-20)),
            ("10 / 4", Numeric::Float(2.5)),
            ("10 / 5 / 2", Numeric::Int(1)),
            ("10 - 5 - 2", Numeric::Int(3)),
            ("@half * 3", Numeric::Float(1.5)),
            ("@\"a-b\" + replicas", Numeric::Int(10)),
            ("@total_time / 1ms", Numeric::Int(300)),
            ("9223372036854775807 + 1", Numeric::Float(9.223_372_036_854_776e18)),
        ];
        for (text, want) in cases {
            assert_eq!(value(text), Some(want), "{text}");
        }
    }

    #[test]
    fn formula_without_a_number_has_no_value() {
        for text in ["@nothing + 1", "@name * 2", "1 / 0", "1 / (2 - 2)", "-@nothing"] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn units_are_carried_and_checked() {
        let dimension = |text| Formula::parse(text).unwrap().dimension();
        assert_eq!(dimension("@a - 5ms"), Some(Dimension::Time));
        assert_eq!(dimension("4KiB * 3"), Some(Dimension::Size));
        assert_eq!(dimension("10s / 5ms"), None);
        for text in ["5ms + 4KiB", "5ms * 5ms", "4KiB / 1s", "@a_ms + @b_bytes", "@a_ms - 4KiB"] {
            assert!(Formula::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn operands_are_converted_to_one_unit() {
        for (text, want) in [
            ("@wait_ms - 100ms", Numeric::Int(150)),
            ("1s - @wait_ms", Numeric::Int(750)),
            ("@pause_seconds + @wait_ms", Numeric::Int(1_750)),
            ("@pause_seconds / @wait_ms", Numeric::Int(6)),
            ("@msec - @x_request_start", Numeric::Int(612_000_000)),
            ("@wait_ms / 1s", Numeric::Float(0.25)),
            ("@wait_ms * 2", Numeric::Int(500)),
            ("@wait_ms - @text_ms", Numeric::Int(150)),
            ("@pause_seconds - (@wait_ms - 100ms) - 1s", Numeric::Int(350)),
        ] {
            assert_eq!(value(text), Some(want), "{text}");
        }
    }

    fn named(calculated_fields: &[(&str, &str)]) -> Vec<CalculatedField> {
        let named = |(path, text): &(&str, &str)| CalculatedField {
            path: (*path).to_owned(),
            formula: Formula::parse(text).unwrap(),
        };
        calculated_fields.iter().map(named).collect()
    }

    #[test]
    fn calculated_fields_use_the_units_of_each_other() {
        let calculated_fields = named(&[("delay", "@wait_ms + 5"), ("late", "@delay - 100ms")]);
        let late = Field::Attribute("late".to_owned());
        let value = |calculated_fields: &[CalculatedField]| {
            let mut found = None;
            WithCalculatedFields::new(&Sample, calculated_fields)
                .visit(&late, &mut |value| found = value.number());
            found.unwrap().value
        };
        assert_eq!(
            value(&calculated_fields),
            Numeric::Int(255 - 100_000_000),
            "on their own they do not"
        );
        let units = Units::default();
        let resolved = CalculatedField::resolve_units(calculated_fields, &units);
        assert_eq!(value(&resolved), Numeric::Int(155));
        assert_eq!(units.of(&late, &resolved), Some(Unit::Millisecond));
        assert_eq!(CalculatedField::resolve_units(resolved.clone(), &units), resolved);
    }

    #[test]
    fn cycle_of_calculated_fields_is_found() {
        let cycle = |calculated_fields: &[(&str, &str)]| {
            let calculated_fields = named(calculated_fields);
            CalculatedField::find_cycle(&calculated_fields).map(|trail| trail.join(" "))
        };
        assert_eq!(cycle(&[("a", "@a + 1")]).as_deref(), Some("a"));
        let three = [("x", "@a"), ("a", "@u + @b"), ("b", "@c"), ("c", "@a + @a"), ("u", "1")];
        assert_eq!(cycle(&three).as_deref(), Some("a b c"));
        assert_eq!(cycle(&[("a", "@b + @c"), ("b", "@c"), ("c", "@d + @d")]), None);
    }

    #[test]
    fn exponentially_growing_calculated_fields_are_rejected() {
        let doubled = |count: usize| {
            let text = |n: usize| format!("@m{n} + @m{n}");
            let all = (1..=count).map(|n| (format!("m{}", n + 1), text(n)));
            let all: Vec<(String, String)> = all.collect();
            let all: Vec<(&str, &str)> =
                all.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
            CalculatedField::too_long(&named(&all)).map(str::to_owned)
        };
        assert_eq!(doubled(10), None);
        assert_eq!(doubled(32).as_deref(), Some("m14"));
        let cycle = named(&[("a", "@b + @b"), ("b", "@a + @a")]);
        assert_eq!(CalculatedField::too_long(&cycle), None);
    }

    #[test]
    fn syntax_errors_have_a_location() {
        let cases = [
            ("", 0),
            ("1 +", 3),
            ("(1 + 2", 6),
            ("1 2", 2),
            ("@", 1),
            ("5parsecs", 0),
            ("5ms + 4KiB", 4),
            ("@\"open", 1),
        ];
        for (text, start) in cases {
            assert_eq!(Formula::parse(text).unwrap_err().span.start, start, "{text}");
        }
        let deep = "(".repeat(100_000);
        assert!(Formula::parse(&deep).is_err());
        let long = format!("1{}", "+1".repeat(20_000));
        assert!(Formula::parse(&long).is_err());
        let both = (0..90).fold("1".to_owned(), |inner, _| format!("({inner}{})", "+1".repeat(90)));
        assert!(Formula::parse(&both).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[-+*/() @a-c0-9.\"smKiB]{0,40}|.{0,40}") {
            match Formula::parse(&text) {
                Ok(formula) => drop(formula.value(&Sample)),
                Err(error) => prop_assert!(error.span.start <= error.span.end && error.span.end <= text.len()),
            }
        }
    }
}
