//! Student's distribution: the probability of a random difference of means (Welch 1947), and the
//! significant ones of many differences (Benjamini and Hochberg 1995).

/// The mean, the variance of single values, and their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
    pub(crate) count: usize,
}

impl Summary {
    pub(crate) fn of(values: &[f64]) -> Self {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count.max(1) as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            mean,
            variance: if count > 1 { squares / (count - 1) as f64 } else { f64::INFINITY },
            count,
        }
    }

    /// The variance of the mean.
    pub(crate) fn error(&self) -> f64 {
        self.variance / self.count as f64
    }
}

/// The p-value: the probability of a difference at least this large if there is none; 1 if there
/// are too few runs.
pub(crate) fn welch(one: &Summary, other: &Summary) -> f64 {
    let error = one.error() + other.error();
    if one.count < 2 || other.count < 2 || !error.is_finite() {
        return 1.0;
    }
    let difference = (one.mean - other.mean).abs();
    // Values that never vary: the probability that the runs split into these two groups by chance.
    if error <= (1e-12 * (one.mean.abs() + other.mean.abs())).powi(2) {
        let same = difference <= 1e-9 * (one.mean.abs() + other.mean.abs());
        return if same { 1.0 } else { (2.0 / ways(one.count + other.count, one.count)).min(1.0) };
    }
    two_sided(difference / error.sqrt(), freedom(one, other))
}

/// Degrees of freedom of the difference (Welch and Satterthwaite).
pub(crate) fn freedom(one: &Summary, other: &Summary) -> f64 {
    let part = |side: &Summary| side.error().powi(2) / (side.count as f64 - 1.0);
    let all = part(one) + part(other);
    if all > 0.0 { (one.error() + other.error()).powi(2) / all } else { 1.0 }
}

/// The binomial coefficient.
fn ways(all: usize, some: usize) -> f64 {
    (1..=some).map(|at| (all - some + at) as f64 / at as f64).product()
}

/// The probability that Student's t is at least this far from 0.
pub(crate) fn two_sided(t: f64, freedom: f64) -> f64 {
    beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The regularised incomplete beta function, by its continued fraction (Numerical Recipes, 6.4).
fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let no_zero = |value: f64| if value.abs() < 1e-30 { 1e-30 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / no_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for m in (1..200).map(f64::from) {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut last = 1.0;
        for part in [even, odd] {
            d = 1.0 / no_zero(1.0 + part * d);
            c = no_zero(1.0 + part / c);
            last = c * d;
            result *= last;
        }
        if (last - 1.0f64).abs() < 1e-12 {
            break;
        }
    }
    result
}

/// The logarithm of the gamma function (Lanczos).
fn ln_gamma(x: f64) -> f64 {
    const PARTS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        1.208_650_973_866_179e-3,
        -5.395_239_384_953e-6,
    ];
    let shifted = x + 5.5;
    let series: f64 = 1.000_000_000_190_015
        + PARTS.iter().zip(1..).map(|(part, at)| part / (x + f64::from(at))).sum::<f64>();
    (x + 0.5) * shifted.ln() - shifted + (2.506_628_274_631_000_5 * series / x).ln()
}

/// The significant ones of many differences, such that at most a share of `wrong` of them is random
/// (the false discovery rate; Benjamini and Hochberg).
pub(crate) fn believed(probabilities: &[f64], wrong: f64) -> Vec<bool> {
    let mut sorted: Vec<f64> = probabilities.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |(at, probability): (usize, &f64)| {
        *probability <= wrong * (at + 1) as f64 / sorted.len() as f64
    };
    let limit = sorted
        .iter()
        .enumerate()
        .filter(|one| rank(*one))
        .map(|(_, probability)| *probability)
        .next_back();
    probabilities
        .iter()
        .map(|probability| limit.is_some_and(|limit| *probability <= limit))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_students_tables() {
        for (t, freedom, wanted) in [
            (12.706, 1.0, 0.05),
            (2.101, 18.0, 0.05),
            (2.878, 18.0, 0.01),
            (3.922, 18.0, 0.001),
            (1.96, 1e6, 0.05),
        ] {
            let found = two_sided(t, freedom);
            assert!((found / wanted - 1.0).abs() < 0.01, "{t} {freedom}: {found}");
        }
        assert!((two_sided(0.0, 5.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_run_is_never_significant_and_constants_only_if_there_are_many() {
        let of = Summary::of;
        assert_eq!(welch(&of(&[1.0]), &of(&[1000.0, 1000.0, 1000.0])), 1.0);
        assert_eq!(welch(&of(&[5.0, 5.0]), &of(&[5.0, 5.0])), 1.0);
        assert!((welch(&of(&[5.0, 5.0]), &of(&[6.0, 6.0])) - 1.0 / 3.0).abs() < 1e-9);
        assert!(welch(&of(&[5.0; 10]), &of(&[6.0; 10])) < 2e-5);
        assert!(welch(&of(&[5.0, 5.1, 4.9]), &of(&[5.0, 5.2, 4.8])) > 0.5);
    }

    #[test]
    fn few_of_many_are_believed() {
        assert_eq!(believed(&[0.001, 0.2, 0.03, 0.9], 0.05), [true, false, false, false]);
        assert_eq!(believed(&[0.001, 0.02, 0.03, 0.04], 0.05), [true; 4]);
        assert_eq!(believed(&[0.5, 0.06], 0.05), [false; 2]);
        assert!(believed(&[], 0.05).is_empty());
    }
}
