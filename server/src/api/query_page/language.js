// The words of PromQL, each with what it takes and does. Knows the language as the node's engine has it: a test holds the
// two together. Pure.

// Name, arguments, what it gives.
export const FUNCTIONS = [
  ['abs', 'v', 'values without their sign'],
  ['absent', 'v', '1 where there is no such series'],
  ['absent_over_time', 'v[range]', '1 where there was no sample in the range'],
  ['acos', 'v', 'arc cosine'],
  ['acosh', 'v', 'inverse hyperbolic cosine'],
  ['asin', 'v', 'arc sine'],
  ['asinh', 'v', 'inverse hyperbolic sine'],
  ['atan', 'v', 'arc tangent'],
  ['atanh', 'v', 'inverse hyperbolic tangent'],
  ['avg_over_time', 'v[range]', 'average in the range'],
  ['ceil', 'v', 'rounded up'],
  ['changes', 'v[range]', 'how often the value changed'],
  ['clamp', 'v, min, max', 'values held between two bounds'],
  ['clamp_max', 'v, max', 'values held below a bound'],
  ['clamp_min', 'v, min', 'values held above a bound'],
  ['cos', 'v', 'cosine'],
  ['cosh', 'v', 'hyperbolic cosine'],
  ['count_over_time', 'v[range]', 'samples in the range'],
  ['day_of_month', 'v', '1 to 31, in UTC'],
  ['day_of_week', 'v', '0 (Sunday) to 6, in UTC'],
  ['day_of_year', 'v', '1 to 366, in UTC'],
  ['days_in_month', 'v', '28 to 31, in UTC'],
  ['deg', 'v', 'radians to degrees'],
  ['delta', 'v[range]', 'growth of a gauge over the range'],
  ['deriv', 'v[range]', 'growth of a gauge a second, by regression'],
  ['exp', 'v', 'e to the power of the value'],
  ['first_over_time', 'v[range]', 'oldest value in the range'],
  ['floor', 'v', 'rounded down'],
  ['histogram_avg', 'v', 'average of native histograms'],
  ['histogram_count', 'v', 'observations in native histograms'],
  ['histogram_fraction', 'low, high, v', 'share of observations between two bounds'],
  ['histogram_quantile', 'φ, v', 'quantile of histograms'],
  ['histogram_stddev', 'v', 'standard deviation of native histograms'],
  ['histogram_stdvar', 'v', 'variance of native histograms'],
  ['histogram_sum', 'v', 'sum of native histograms'],
  ['hour', 'v', '0 to 23, in UTC'],
  ['idelta', 'v[range]', 'difference of the last two samples'],
  ['increase', 'v[range]', 'growth of a counter over the range'],
  ['irate', 'v[range]', 'growth of a counter a second, by the last two samples'],
  ['label_join', 'v, "to", "separator", "from", …', 'a label made of others'],
  ['label_replace', 'v, "to", "with", "from", "regex"', 'a label made of another'],
  ['last_over_time', 'v[range]', 'newest value in the range'],
  ['ln', 'v', 'natural logarithm'],
  ['log10', 'v', 'decimal logarithm'],
  ['log2', 'v', 'binary logarithm'],
  ['max_over_time', 'v[range]', 'greatest value in the range'],
  ['min_over_time', 'v[range]', 'least value in the range'],
  ['minute', 'v', '0 to 59, in UTC'],
  ['month', 'v', '1 to 12, in UTC'],
  ['pi', '', 'π'],
  ['predict_linear', 'v[range], seconds', 'value in so many seconds, by regression'],
  ['present_over_time', 'v[range]', '1 where there was a sample in the range'],
  ['quantile_over_time', 'φ, v[range]', 'quantile in the range'],
  ['rad', 'v', 'degrees to radians'],
  ['rate', 'v[range]', 'growth of a counter a second'],
  ['resets', 'v[range]', 'how often a counter began again'],
  ['round', 'v, to', 'rounded to a multiple'],
  ['scalar', 'v', 'the value of a single series'],
  ['sgn', 'v', '1, 0 or −1'],
  ['sin', 'v', 'sine'],
  ['sinh', 'v', 'hyperbolic sine'],
  ['sort', 'v', 'by value, ascending'],
  ['sort_desc', 'v', 'by value, descending'],
  ['sqrt', 'v', 'square root'],
  ['stddev_over_time', 'v[range]', 'standard deviation in the range'],
  ['stdvar_over_time', 'v[range]', 'variance in the range'],
  ['sum_over_time', 'v[range]', 'sum in the range'],
  ['tan', 'v', 'tangent'],
  ['tanh', 'v', 'hyperbolic tangent'],
  ['time', '', 'seconds since the epoch'],
  ['timestamp', 'v', 'when the sample was taken'],
  ['vector', 's', 'a scalar as a series without labels'],
  ['year', 'v', 'in UTC'],
];

export const AGGREGATIONS = [
  ['avg', 'v', 'average'],
  ['bottomk', 'k, v', 'the k series with the least values'],
  ['count', 'v', 'number of series'],
  ['count_values', '"label", v', 'number of series by value'],
  ['group', 'v', '1 for each group'],
  ['max', 'v', 'greatest value'],
  ['min', 'v', 'least value'],
  ['quantile', 'φ, v', 'quantile over series'],
  ['stddev', 'v', 'standard deviation over series'],
  ['stdvar', 'v', 'variance over series'],
  ['sum', 'v', 'sum'],
  ['topk', 'k, v', 'the k series with the greatest values'],
];

// Words that are before labels in parentheses.
export const CLAUSES = ['by', 'without', 'on', 'ignoring', 'group_left', 'group_right'];

export const KEYWORDS = [...CLAUSES, 'and', 'or', 'unless', 'atan2', 'offset', 'bool', 'start', 'end', 'inf', 'nan'];

export const DURATIONS = ['1m', '5m', '10m', '30m', '1h', '6h', '1d', '1w'];

const CALLED = new Set([...FUNCTIONS, ...AGGREGATIONS].map(([name]) => name));
const RESERVED = new Set(KEYWORDS);

// Whether a word isn't a metric's name, where it is without parentheses.
export const isKeyword = (word) => RESERVED.has(word.toLowerCase());
export const isCalled = (word) => CALLED.has(word.toLowerCase());
