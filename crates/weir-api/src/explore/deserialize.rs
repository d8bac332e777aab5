//! Translates parser errors, which use Rust's type names, to the terms of requests.
//!
//! Invariant: an object is only read from an object. A derived implementation would also accept an
//! array of its values.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that is read from an object.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer).map(Self)
    }
}

/// For a member that is an object.
pub(super) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ObjectVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(members))
        }
    }

    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

/// For a member that is an object or null.
pub(super) fn optional_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}

/// For a member that is an array of objects.
pub(super) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Vec::<Object<T>>::deserialize(deserializer)?
        .into_iter()
        .map(|Object(value)| value)
        .collect())
}

/// Rewrites the error of a parser. The position in the text is kept only if no member can be named.
pub(super) fn plain_error(error: &str) -> String {
    let what = error.rsplit_once(" at line ").map_or(error, |(what, _)| what);
    let of_kind = ["invalid type: ", "invalid value: "];
    let of_kind = of_kind.into_iter().find_map(|prefix| what.strip_prefix(prefix));
    if let Some((found, expected)) = of_kind.and_then(|rest| rest.split_once(", expected ")) {
        return format!(
            "is {}, but must be {}",
            describe_found(found),
            describe_expected(expected)
        );
    }
    if let Some((found, expected)) =
        what.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("is {found}, but must be {expected}");
    }
    match what {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a non-negative whole number".to_owned()
        }
        // An enumeration of texts was expected.
        "expected value" => "must be text".to_owned(),
        "number too large to fit in target type" => "is too large".to_owned(),
        "provided string was not `true` or `false`" => "must be true or false".to_owned(),
        _ if what.starts_with("unknown field")
            || what.starts_with("missing field")
            || what.starts_with("duplicate field") =>
        {
            what.to_owned()
        }
        _ => error.to_owned(),
    }
}

fn describe_found(found: &str) -> String {
    let quoted = |kind: &str| found.strip_prefix(kind).map(|value| value.trim_matches('`'));
    match found {
        "sequence" => "an array".to_owned(),
        "map" => "an object".to_owned(),
        "null" | "unit value" => "null".to_owned(),
        _ => {
            let number = quoted("integer ").or_else(|| quoted("floating point "));
            let text = found.strip_prefix("string ").map(|text| format!("the text {text}"));
            let number = number.map(|number| format!("the number {number}"));
            let truth = || quoted("boolean ").map(str::to_owned);
            text.or(number).or_else(truth).unwrap_or_else(|| found.to_owned())
        }
    }
}

fn describe_expected(expected: &str) -> &str {
    match expected {
        "a string" | "string" | "string or map" => "text",
        "a sequence" => "an array",
        "a map" => "an object",
        "a boolean" => "true or false",
        "u8" | "u32" | "u64" | "usize" => "a non-negative whole number",
        "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_errors_are_translated() {
        for (error, want) in [
            (
                "invalid type: sequence, expected a string at line 1 column 10",
                "is an array, but must be text",
            ),
            (
                "invalid type: string \"a at line 1\", expected usize at line 1 column 2",
                "is the text \"a at line 1\", but must be a non-negative whole number",
            ),
            (
                "invalid type: integer `5`, expected a boolean at line 1 column 2",
                "is the number 5, but must be true or false",
            ),
            (
                "invalid value: integer `-5`, expected usize",
                "is the number -5, but must be a non-negative whole number",
            ),
            ("unknown variant `x`, expected `a` or `b`", "is `x`, but must be `a` or `b`"),
            ("invalid digit found in string", "must be a non-negative whole number"),
            ("missing field `field`", "missing field `field`"),
            (
                "EOF while parsing an object at line 1 column 1",
                "EOF while parsing an object at line 1 column 1",
            ),
        ] {
            assert_eq!(plain_error(error), want);
        }
    }
}
