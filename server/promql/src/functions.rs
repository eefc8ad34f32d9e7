//! PromQL's functions: what each is called, takes and gives. What it computes, the evaluation knows.

use crate::ast::Type;

/// A function's signature.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) function: Function,
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [Type],
    pub(crate) variadic: Variadic,
    pub(crate) returns: Type,
    /// Only where the caller allows experiments.
    pub(crate) is_experimental: bool,
}

/// Whether the last argument may be left out or come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variadic {
    No,
    /// From one argument less up to so many more than that.
    UpTo(usize),
    /// From one argument less, without end.
    Any,
}

/// Each function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    Abs,
    Absent,
    AbsentOverTime,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    AvgOverTime,
    Ceil,
    Changes,
    Clamp,
    ClampMax,
    ClampMin,
    Cos,
    Cosh,
    CountOverTime,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    DaysInMonth,
    Deg,
    Delta,
    Deriv,
    DoubleExponentialSmoothing,
    End,
    Exp,
    FirstOverTime,
    Floor,
    HistogramAvg,
    HistogramCount,
    HistogramFraction,
    HistogramQuantile,
    HistogramQuantiles,
    HistogramStddev,
    HistogramStdvar,
    HistogramSum,
    Hour,
    Idelta,
    Increase,
    Info,
    Irate,
    LabelJoin,
    LabelReplace,
    LastOverTime,
    Ln,
    Log10,
    Log2,
    MadOverTime,
    MaxOf,
    MaxOverTime,
    MinOf,
    MinOverTime,
    Minute,
    Month,
    Pi,
    PredictLinear,
    PresentOverTime,
    QuantileOverTime,
    Rad,
    Range,
    Rate,
    Resets,
    Round,
    Scalar,
    Sgn,
    Sin,
    Sinh,
    Sort,
    SortByLabel,
    SortByLabelDesc,
    SortDesc,
    Sqrt,
    Start,
    StartTimestamp,
    StddevOverTime,
    StdvarOverTime,
    Step,
    SumOverTime,
    Tan,
    Tanh,
    Time,
    Timestamp,
    TsOfFirstOverTime,
    TsOfLastOverTime,
    TsOfMaxOverTime,
    TsOfMinOverTime,
    Vector,
    Year,
}

impl Function {
    /// The signature of a name. `None`: there is no such function.
    pub(crate) fn named(name: &str) -> Option<&'static Signature> {
        SIGNATURES.binary_search_by(|signature| signature.name.cmp(name)).ok().map(|at| &SIGNATURES[at])
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        SIGNATURES.iter().find(|signature| signature.function == self).map_or("", |signature| signature.name)
    }
}

/// The names of all functions that need no leave, ascending.
pub fn stable_functions() -> impl Iterator<Item = &'static str> {
    SIGNATURES.iter().filter(|signature| !signature.is_experimental).map(|signature| signature.name)
}

const fn stable(
    function: Function,
    name: &'static str,
    arguments: &'static [Type],
    variadic: Variadic,
    returns: Type,
) -> Signature {
    Signature { function, name, arguments, variadic, returns, is_experimental: false }
}

const fn experimental(
    function: Function,
    name: &'static str,
    arguments: &'static [Type],
    variadic: Variadic,
    returns: Type,
) -> Signature {
    Signature { function, name, arguments, variadic, returns, is_experimental: true }
}

/// In the order of their names.
static SIGNATURES: [Signature; 90] = [
    stable(Function::Abs, "abs", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Absent, "absent", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::AbsentOverTime, "absent_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Acos, "acos", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Acosh, "acosh", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Asin, "asin", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Asinh, "asinh", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Atan, "atan", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Atanh, "atanh", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::AvgOverTime, "avg_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Ceil, "ceil", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Changes, "changes", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Clamp, "clamp", &[Type::Vector, Type::Scalar, Type::Scalar], Variadic::No, Type::Vector),
    stable(Function::ClampMax, "clamp_max", &[Type::Vector, Type::Scalar], Variadic::No, Type::Vector),
    stable(Function::ClampMin, "clamp_min", &[Type::Vector, Type::Scalar], Variadic::No, Type::Vector),
    stable(Function::Cos, "cos", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Cosh, "cosh", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::CountOverTime, "count_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::DayOfMonth, "day_of_month", &[Type::Vector], Variadic::UpTo(1), Type::Vector),
    stable(Function::DayOfWeek, "day_of_week", &[Type::Vector], Variadic::UpTo(1), Type::Vector),
    stable(Function::DayOfYear, "day_of_year", &[Type::Vector], Variadic::UpTo(1), Type::Vector),
    stable(Function::DaysInMonth, "days_in_month", &[Type::Vector], Variadic::UpTo(1), Type::Vector),
    stable(Function::Deg, "deg", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Delta, "delta", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Deriv, "deriv", &[Type::Matrix], Variadic::No, Type::Vector),
    experimental(
        Function::DoubleExponentialSmoothing,
        "double_exponential_smoothing",
        &[Type::Matrix, Type::Scalar, Type::Scalar],
        Variadic::No,
        Type::Vector,
    ),
    experimental(Function::End, "end", &[], Variadic::No, Type::Scalar),
    stable(Function::Exp, "exp", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::FirstOverTime, "first_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Floor, "floor", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::HistogramAvg, "histogram_avg", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::HistogramCount, "histogram_count", &[Type::Vector], Variadic::No, Type::Vector),
    stable(
        Function::HistogramFraction,
        "histogram_fraction",
        &[Type::Scalar, Type::Scalar, Type::Vector],
        Variadic::No,
        Type::Vector,
    ),
    stable(
        Function::HistogramQuantile,
        "histogram_quantile",
        &[Type::Scalar, Type::Vector],
        Variadic::No,
        Type::Vector,
    ),
    experimental(
        Function::HistogramQuantiles,
        "histogram_quantiles",
        &[Type::Vector, Type::Text, Type::Scalar, Type::Scalar],
        Variadic::UpTo(9),
        Type::Vector,
    ),
    stable(Function::HistogramStddev, "histogram_stddev", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::HistogramStdvar, "histogram_stdvar", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::HistogramSum, "histogram_sum", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Hour, "hour", &[Type::Vector], Variadic::UpTo(1), Type::Vector),
    stable(Function::Idelta, "idelta", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Increase, "increase", &[Type::Matrix], Variadic::No, Type::Vector),
    experimental(Function::Info, "info", &[Type::Vector, Type::Vector], Variadic::UpTo(1), Type::Vector),
    stable(Function::Irate, "irate", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(
        Function::LabelJoin,
        "label_join",
        &[Type::Vector, Type::Text, Type::Text, Type::Text],
        Variadic::Any,
        Type::Vector,
    ),
    stable(
        Function::LabelReplace,
        "label_replace",
        &[Type::Vector, Type::Text, Type::Text, Type::Text, Type::Text],
        Variadic::No,
        Type::Vector,
    ),
    stable(Function::LastOverTime, "last_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Ln, "ln", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Log10, "log10", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Log2, "log2", &[Type::Vector], Variadic::No, Type::Vector),
    experimental(Function::MadOverTime, "mad_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    experimental(Function::MaxOf, "max_of", &[Type::Scalar, Type::Scalar], Variadic::No, Type::Scalar),
    stable(Function::MaxOverTime, "max_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    experimental(Function::MinOf, "min_of", &[Type::Scalar, Type::Scalar], Variadic::No, Type::Scalar),
    stable(Function::MinOverTime, "min_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Minute, "minute", &[Type::Vector], Variadic::UpTo(1), Type::Vector),
    stable(Function::Month, "month", &[Type::Vector], Variadic::UpTo(1), Type::Vector),
    stable(Function::Pi, "pi", &[], Variadic::No, Type::Scalar),
    stable(
        Function::PredictLinear,
        "predict_linear",
        &[Type::Matrix, Type::Scalar],
        Variadic::No,
        Type::Vector,
    ),
    stable(Function::PresentOverTime, "present_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(
        Function::QuantileOverTime,
        "quantile_over_time",
        &[Type::Scalar, Type::Matrix],
        Variadic::No,
        Type::Vector,
    ),
    stable(Function::Rad, "rad", &[Type::Vector], Variadic::No, Type::Vector),
    experimental(Function::Range, "range", &[], Variadic::No, Type::Scalar),
    stable(Function::Rate, "rate", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Resets, "resets", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Round, "round", &[Type::Vector, Type::Scalar], Variadic::UpTo(1), Type::Vector),
    stable(Function::Scalar, "scalar", &[Type::Vector], Variadic::No, Type::Scalar),
    stable(Function::Sgn, "sgn", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Sin, "sin", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Sinh, "sinh", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Sort, "sort", &[Type::Vector], Variadic::No, Type::Vector),
    experimental(
        Function::SortByLabel,
        "sort_by_label",
        &[Type::Vector, Type::Text],
        Variadic::Any,
        Type::Vector,
    ),
    experimental(
        Function::SortByLabelDesc,
        "sort_by_label_desc",
        &[Type::Vector, Type::Text],
        Variadic::Any,
        Type::Vector,
    ),
    stable(Function::SortDesc, "sort_desc", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Sqrt, "sqrt", &[Type::Vector], Variadic::No, Type::Vector),
    experimental(Function::Start, "start", &[], Variadic::No, Type::Scalar),
    experimental(Function::StartTimestamp, "start_timestamp", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::StddevOverTime, "stddev_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::StdvarOverTime, "stdvar_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    experimental(Function::Step, "step", &[], Variadic::No, Type::Scalar),
    stable(Function::SumOverTime, "sum_over_time", &[Type::Matrix], Variadic::No, Type::Vector),
    stable(Function::Tan, "tan", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Tanh, "tanh", &[Type::Vector], Variadic::No, Type::Vector),
    stable(Function::Time, "time", &[], Variadic::No, Type::Scalar),
    stable(Function::Timestamp, "timestamp", &[Type::Vector], Variadic::No, Type::Vector),
    experimental(
        Function::TsOfFirstOverTime,
        "ts_of_first_over_time",
        &[Type::Matrix],
        Variadic::No,
        Type::Vector,
    ),
    experimental(
        Function::TsOfLastOverTime,
        "ts_of_last_over_time",
        &[Type::Matrix],
        Variadic::No,
        Type::Vector,
    ),
    experimental(
        Function::TsOfMaxOverTime,
        "ts_of_max_over_time",
        &[Type::Matrix],
        Variadic::No,
        Type::Vector,
    ),
    experimental(
        Function::TsOfMinOverTime,
        "ts_of_min_over_time",
        &[Type::Matrix],
        Variadic::No,
        Type::Vector,
    ),
    stable(Function::Vector, "vector", &[Type::Scalar], Variadic::No, Type::Vector),
    stable(Function::Year, "year", &[Type::Vector], Variadic::UpTo(1), Type::Vector),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_found_by_its_name() {
        assert!(SIGNATURES.is_sorted_by(|left, right| left.name < right.name));
        for signature in &SIGNATURES {
            assert_eq!(Function::named(signature.name).map(|found| found.function), Some(signature.function));
        }
        assert!(Function::named("no_such").is_none());
    }
}
