//! Formats numbers like Go's shortest `%g`: boundaries and quantiles are tags, which have to be
//! equal to those of Loggregator's own scraper.

/// Decimal exponents from which a number is written with an exponent.
const EXPONENT_MIN: i32 = -4;
const EXPONENT_MAX: i32 = 6;

/// Writes a number: `0.5`, `100000`, `1e+06`, `+Inf`.
pub(super) fn shortest(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{number:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (EXPONENT_MIN..EXPONENT_MAX).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_by_go() {
        for (number, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (-2.5, "-2.5"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(shortest(number), text);
        }
    }
}
