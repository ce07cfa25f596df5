//! The SDK's errors as ours.

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::operation::RequestId;
use karpenter_provider_aws::calls::AwsError;

/// What we call a failure that AWS gave no code for.
const NO_ANSWER: &str = "RequestError";
const TIMED_OUT: &str = "RequestTimeout";
const UNREADABLE: &str = "UnreadableResponse";
const NOT_SENT: &str = "RequestNotSent";

/// With everything an operator needs to find the call again; the line is for whoever looks closely, since the caller
/// says what the failure means.
pub(crate) fn fault<E>(service: &'static str, operation: &'static str, error: SdkError<E, HttpResponse>) -> AwsError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let status = error.raw_response().map(|response| response.status().as_u16());
    let request_id = error.request_id().map(str::to_owned);
    let (code, unanswered) = match &error {
        SdkError::ServiceError(refusal) => (refusal.err().code().map(str::to_owned), false),
        SdkError::TimeoutError(_) => (Some(TIMED_OUT.to_owned()), true),
        SdkError::DispatchFailure(_) => (Some(NO_ANSWER.to_owned()), true),
        SdkError::ResponseError(_) => (Some(UNREADABLE.to_owned()), true),
        SdkError::ConstructionFailure(_) => (Some(NOT_SENT.to_owned()), false),
        // The SDK keeps its list of kinds open.
        _ => (None, false),
    };
    let message = match &error {
        SdkError::ServiceError(refusal) => refusal.err().message().map(str::to_owned),
        _ => None,
    };
    let fault = AwsError {
        operation,
        code: code.unwrap_or_else(|| status.map_or_else(|| NO_ANSWER.to_owned(), |status| status.to_string())),
        message: message.unwrap_or_else(|| chain(&error)),
        server_fault: unanswered || status.is_some_and(|status| status >= 500),
        request_id,
    };
    tracing::debug!(
        service,
        operation,
        code = fault.code,
        status,
        request_id = fault.request_id,
        answer = fault.message,
        "an AWS call failed"
    );
    fault
}

/// An error and what caused it, each in its own words.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
