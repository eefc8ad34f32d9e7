"""Prints the OpenMetrics text from which promtool writes the chunks beside this file.

Every run prints the same. Series stand in the order in which a block sorts them.
"""
import random

RANGE_START_MS = 236_112 * 7_200_000  # A multiple of two hours: all that follows is one block.
STEP_MS = 15_000


def regular(count, jitter_ms=0):
    return [RANGE_START_MS + i * STEP_MS + random.randint(0, jitter_ms) for i in range(count)]


def spread(count, longest_ms):
    times, now = [], RANGE_START_MS
    for _ in range(count):
        now += random.choice([1, 10, random.randint(1, longest_ms)])
        times.append(now)
    return times


def counter(count, step):
    value, values = 0, []
    for _ in range(count):
        value += random.randint(0, step)
        values.append(value)
    return values


def series():
    random.seed(20_231_114)
    yield "a_constant", regular(250), [42] * 250
    yield "b_counter", regular(250), counter(250, 1000)
    yield "c_counter_with_jitter", regular(250, 7), counter(250, 1_000_000)
    yield "d_slow_counter", regular(250, 3), counter(250, 1)
    yield "e_gauge_of_hundredths", regular(250), [random.randint(-9999, 9999) / 100 for _ in range(250)]
    yield "f_random_floats", regular(250, 5000), [random.uniform(-1e9, 1e9) for _ in range(250)]
    special = ["NaN", "+Inf", "-Inf", 0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308]
    yield "g_special_values", regular(200), [random.choice(special) for _ in range(200)]
    yield "h_irregular_times", spread(150, 60_000), counter(150, 10)
    gaps = [0, 1, 8_192, 16_385, 81_921, 606_209, 1_200_000, 5_400_000, 5_400_001, 7_199_999]
    yield "i_large_gaps", [RANGE_START_MS + gap for gap in gaps], [i * 0.1 for i in range(len(gaps))]
    yield "j_one_sample", regular(1), [5]
    yield "k_two_samples", regular(2), [5, 5]
    yield "l_powers_of_two", regular(130, 20_000 - STEP_MS), [2.0 ** random.randint(-900, 900) for _ in range(130)]


for name, times_ms, values in series():
    print(f"# TYPE {name} gauge")
    for time_ms, value in zip(times_ms, values):
        print(f"{name} {value} {time_ms // 1000}.{time_ms % 1000:03}")
print("# EOF")
