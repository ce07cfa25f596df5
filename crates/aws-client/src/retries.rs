//! How often a call is made before it has failed.

use aws_config::retry::RetryConfig;

/// The SDKs' own number.
const ATTEMPTS: u32 = 3;

/// Backing off as the answers ask for, unless the operator chose otherwise.
pub(crate) fn retries(env: &dyn Fn(&str) -> Option<String>) -> Option<RetryConfig> {
    if env("AWS_RETRY_MODE").is_some_and(|mode| !mode.is_empty()) {
        return None;
    }
    let attempts = env("AWS_MAX_ATTEMPTS").and_then(|text| text.trim().parse().ok()).filter(|number| *number > 0);
    Some(RetryConfig::adaptive().with_max_attempts(attempts.unwrap_or(ATTEMPTS)))
}

#[cfg(test)]
mod tests {
    use aws_config::retry::RetryMode;

    use super::*;

    #[test]
    fn retries_back_off_unless_told_otherwise() {
        let with = |env: &[(&str, &str)]| {
            retries(&|name| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        let found = with(&[]).unwrap();
        assert_eq!((found.mode(), found.max_attempts()), (RetryMode::Adaptive, 3));
        assert_eq!(with(&[("AWS_MAX_ATTEMPTS", "7")]).unwrap().max_attempts(), 7);
        assert_eq!(with(&[("AWS_MAX_ATTEMPTS", "none")]).unwrap().max_attempts(), 3);
        assert!(with(&[("AWS_RETRY_MODE", "standard")]).is_none());
    }
}
