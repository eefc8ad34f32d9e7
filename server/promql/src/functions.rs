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

/// Makes [`Function`] and its signatures of lines in the order of the functions' names.
macro_rules! functions {
    ($($function:ident = $name:ident($($argument:ident),*) $($variadic:ident $(($more:literal))?)?
        -> $returns:ident $(, $experimental:ident)?;)+) => {
        /// Each function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Function { $($function,)+ }

        /// In the order of their names.
        static SIGNATURES: [Signature; [$(Function::$function),+].len()] = [$(Signature {
            function: Function::$function,
            name: stringify!($name),
            arguments: &[$(Type::$argument),*],
            variadic: [$(Variadic::$variadic $(($more))?,)? Variadic::No][0],
            returns: Type::$returns,
            is_experimental: !stringify!($($experimental)?).is_empty(),
        },)+];
    };
}

functions! {
    Abs = abs(Vector) -> Vector;
    Absent = absent(Vector) -> Vector;
    AbsentOverTime = absent_over_time(Matrix) -> Vector;
    Acos = acos(Vector) -> Vector;
    Acosh = acosh(Vector) -> Vector;
    Asin = asin(Vector) -> Vector;
    Asinh = asinh(Vector) -> Vector;
    Atan = atan(Vector) -> Vector;
    Atanh = atanh(Vector) -> Vector;
    AvgOverTime = avg_over_time(Matrix) -> Vector;
    Ceil = ceil(Vector) -> Vector;
    Changes = changes(Matrix) -> Vector;
    Clamp = clamp(Vector, Scalar, Scalar) -> Vector;
    ClampMax = clamp_max(Vector, Scalar) -> Vector;
    ClampMin = clamp_min(Vector, Scalar) -> Vector;
    Cos = cos(Vector) -> Vector;
    Cosh = cosh(Vector) -> Vector;
    CountOverTime = count_over_time(Matrix) -> Vector;
    DayOfMonth = day_of_month(Vector) UpTo(1) -> Vector;
    DayOfWeek = day_of_week(Vector) UpTo(1) -> Vector;
    DayOfYear = day_of_year(Vector) UpTo(1) -> Vector;
    DaysInMonth = days_in_month(Vector) UpTo(1) -> Vector;
    Deg = deg(Vector) -> Vector;
    Delta = delta(Matrix) -> Vector;
    Deriv = deriv(Matrix) -> Vector;
    DoubleExponentialSmoothing = double_exponential_smoothing(Matrix, Scalar, Scalar) -> Vector, experimental;
    End = end() -> Scalar, experimental;
    Exp = exp(Vector) -> Vector;
    FirstOverTime = first_over_time(Matrix) -> Vector;
    Floor = floor(Vector) -> Vector;
    HistogramAvg = histogram_avg(Vector) -> Vector;
    HistogramCount = histogram_count(Vector) -> Vector;
    HistogramFraction = histogram_fraction(Scalar, Scalar, Vector) -> Vector;
    HistogramQuantile = histogram_quantile(Scalar, Vector) -> Vector;
    HistogramQuantiles = histogram_quantiles(Vector, Text, Scalar, Scalar) UpTo(9) -> Vector, experimental;
    HistogramStddev = histogram_stddev(Vector) -> Vector;
    HistogramStdvar = histogram_stdvar(Vector) -> Vector;
    HistogramSum = histogram_sum(Vector) -> Vector;
    Hour = hour(Vector) UpTo(1) -> Vector;
    Idelta = idelta(Matrix) -> Vector;
    Increase = increase(Matrix) -> Vector;
    Info = info(Vector, Vector) UpTo(1) -> Vector, experimental;
    Irate = irate(Matrix) -> Vector;
    LabelJoin = label_join(Vector, Text, Text, Text) Any -> Vector;
    LabelReplace = label_replace(Vector, Text, Text, Text, Text) -> Vector;
    LastOverTime = last_over_time(Matrix) -> Vector;
    Ln = ln(Vector) -> Vector;
    Log10 = log10(Vector) -> Vector;
    Log2 = log2(Vector) -> Vector;
    MadOverTime = mad_over_time(Matrix) -> Vector, experimental;
    MaxOf = max_of(Scalar, Scalar) -> Scalar, experimental;
    MaxOverTime = max_over_time(Matrix) -> Vector;
    MinOf = min_of(Scalar, Scalar) -> Scalar, experimental;
    MinOverTime = min_over_time(Matrix) -> Vector;
    Minute = minute(Vector) UpTo(1) -> Vector;
    Month = month(Vector) UpTo(1) -> Vector;
    Pi = pi() -> Scalar;
    PredictLinear = predict_linear(Matrix, Scalar) -> Vector;
    PresentOverTime = present_over_time(Matrix) -> Vector;
    QuantileOverTime = quantile_over_time(Scalar, Matrix) -> Vector;
    Rad = rad(Vector) -> Vector;
    Range = range() -> Scalar, experimental;
    Rate = rate(Matrix) -> Vector;
    Resets = resets(Matrix) -> Vector;
    Round = round(Vector, Scalar) UpTo(1) -> Vector;
    Scalar = scalar(Vector) -> Scalar;
    Sgn = sgn(Vector) -> Vector;
    Sin = sin(Vector) -> Vector;
    Sinh = sinh(Vector) -> Vector;
    Sort = sort(Vector) -> Vector;
    SortByLabel = sort_by_label(Vector, Text) Any -> Vector, experimental;
    SortByLabelDesc = sort_by_label_desc(Vector, Text) Any -> Vector, experimental;
    SortDesc = sort_desc(Vector) -> Vector;
    Sqrt = sqrt(Vector) -> Vector;
    Start = start() -> Scalar, experimental;
    StartTimestamp = start_timestamp(Vector) -> Vector, experimental;
    StddevOverTime = stddev_over_time(Matrix) -> Vector;
    StdvarOverTime = stdvar_over_time(Matrix) -> Vector;
    Step = step() -> Scalar, experimental;
    SumOverTime = sum_over_time(Matrix) -> Vector;
    Tan = tan(Vector) -> Vector;
    Tanh = tanh(Vector) -> Vector;
    Time = time() -> Scalar;
    Timestamp = timestamp(Vector) -> Vector;
    TsOfFirstOverTime = ts_of_first_over_time(Matrix) -> Vector, experimental;
    TsOfLastOverTime = ts_of_last_over_time(Matrix) -> Vector, experimental;
    TsOfMaxOverTime = ts_of_max_over_time(Matrix) -> Vector, experimental;
    TsOfMinOverTime = ts_of_min_over_time(Matrix) -> Vector, experimental;
    Vector = vector(Scalar) -> Vector;
    Year = year(Vector) UpTo(1) -> Vector;
}

impl Function {
    /// The signature of a name. `None`: there is no such function.
    pub(crate) fn named(name: &str) -> Option<&'static Signature> {
        SIGNATURES.binary_search_by(|signature| signature.name.cmp(name)).ok().map(|at| &SIGNATURES[at])
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        SIGNATURES[self as usize].name
    }
}

/// The names of all functions that need no leave, ascending.
pub fn stable_functions() -> impl Iterator<Item = &'static str> {
    SIGNATURES.iter().filter(|signature| !signature.is_experimental).map(|signature| signature.name)
}

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
