//! Who is it: bearer tokens, service account tokens, impersonation.

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use jiff::Timestamp;
use ring::hmac;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::ids::Ids;
use crate::request::User;
use crate::server::Inner;
use crate::state::State;

/// Known tokens, and the key that signs those of service accounts.
pub(crate) struct Tokens {
    known: Mutex<FxHashMap<String, User>>,
    key: RwLock<hmac::Key>,
}

/// With what nobody can guess.
pub(crate) fn fill_random(bytes: &mut [u8]) {
    use ring::rand::SecureRandom as _;
    ring::rand::SystemRandom::new().fill(bytes).expect("the system has random numbers");
}

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

impl Tokens {
    /// The key follows from the seed: within a process the same seed gives the same tokens.
    pub(crate) fn new(ids: &mut Ids) -> Self {
        let mut secret = [0; 32];
        for bytes in secret.chunks_exact_mut(8) {
            bytes.copy_from_slice(&ids.next().to_le_bytes());
        }
        Self { known: Mutex::new(FxHashMap::default()), key: RwLock::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)) }
    }

    /// From now on with a key that nobody can guess: whoever knew it could speak for every service account. Tokens that were
    /// signed before are void.
    pub(crate) fn sign_with_a_secret(&self) {
        let mut secret = [0; 32];
        fill_random(&mut secret);
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    }

    fn key(&self) -> RwLockReadGuard<'_, hmac::Key> {
        self.key.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, token: &str, user: User) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(token.to_owned(), user);
    }

    pub(crate) fn authenticate(
        &self,
        inner: &Inner,
        authorization: &str,
        fallback: Option<User>,
    ) -> Result<User, ApiError> {
        let Some(token) = authorization.strip_prefix("Bearer ").map(str::trim).filter(|token| !token.is_empty()) else {
            return fallback.ok_or_else(unauthorized);
        };
        self.identify(&inner.state(), token).ok_or_else(unauthorized)
    }

    /// Whom a token speaks for.
    pub(crate) fn identify(&self, state: &State, token: &str) -> Option<User> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned();
        if let Some(mut user) = known {
            if !user.groups.iter().any(|group| group == "system:authenticated") {
                user.groups.push("system:authenticated".into());
            }
            return Some(user);
        }
        let claims = self.verify(token, state.now)?;
        let private = &claims["kubernetes.io"];
        let namespace = private["namespace"].as_str()?;
        let name = private["serviceaccount"]["name"].as_str()?;
        let uid = private["serviceaccount"]["uid"].as_str()?;
        let table = state.registry.table("", "serviceaccounts")?;
        let account = state.store.get(table, &format!("{namespace}/{name}"))?;
        if &*account.uid != uid {
            return None;
        }
        let mut extra = vec![(
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![format!("JTI={}", claims["jti"].as_str().unwrap_or_default())],
        )];
        for (claim, plural, prefix) in [
            ("pod", "pods", "authentication.kubernetes.io/pod-"),
            ("node", "nodes", "authentication.kubernetes.io/node-"),
        ] {
            let Some(bound) = private.get(claim) else { continue };
            let (name, uid) = (bound["name"].as_str()?, bound["uid"].as_str()?);
            let key = if plural == "pods" { format!("{namespace}/{name}") } else { name.to_owned() };
            let found = state.registry.table("", plural).and_then(|table| state.store.get(table, &key));
            // A token dies with the pod it was made for.
            if plural == "pods" && found.is_none_or(|object| &*object.uid != uid) {
                return None;
            }
            extra.push((format!("{prefix}name"), vec![name.to_owned()]));
            extra.push((format!("{prefix}uid"), vec![uid.to_owned()]));
        }
        Some(User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
            extra,
        })
    }

    /// Signs the claims as a JWT.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "HS256", "typ": "JWT"});
        let body =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = hmac::sign(&self.key(), body.as_bytes());
        format!("{body}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn verify(&self, token: &str, now: Timestamp) -> Option<Value> {
        let (body, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key(), body.as_bytes(), &signature).ok()?;
        let claims = URL_SAFE_NO_PAD.decode(body.split_once('.')?.1).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        (claims["exp"].as_i64()? > now.as_second()).then_some(claims)
    }
}

fn unauthorized() -> ApiError {
    ApiError::new(401, "Unauthorized", "Unauthorized")
}

/// The token of a TokenRequest.
pub(crate) struct TokenGrant {
    pub(crate) namespace: String,
    pub(crate) account: String,
    pub(crate) account_uid: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) seconds: i64,
    /// The claim of the object the token is bound to, such as (`pod`, {name, uid}).
    pub(crate) bound: Vec<(String, Value)>,
}

pub(crate) fn grant(tokens: &Tokens, state: &mut State, grant: &TokenGrant) -> String {
    let now = state.now.as_second();
    let mut private = json!({"namespace": grant.namespace,
        "serviceaccount": {"name": grant.account, "uid": grant.account_uid}});
    for (key, value) in &grant.bound {
        private[key.as_str()] = value.clone();
    }
    let claims = json!({"aud": grant.audiences, "exp": now + grant.seconds, "iat": now, "iss": ISSUER, "jti": state.ids.uid(),
        "kubernetes.io": private, "nbf": now, "sub": format!("system:serviceaccount:{}:{}", grant.namespace, grant.account)});
    tokens.sign(&claims)
}

/// The audience of tokens nobody asked another of.
pub(crate) fn default_audience() -> String {
    ISSUER.to_owned()
}

/// The user of the `Impersonate-*` headers, if the caller may be somebody else.
pub(crate) fn impersonate(inner: &Inner, user: &User, headers: &HeaderMap) -> Result<User, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let groups: Vec<String> = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned)
        .collect();
    let Some(name) = text("impersonate-user") else {
        if groups.is_empty() {
            return Ok(user.clone());
        }
        return Err(ApiError::internal("requested impersonation without impersonating a user"));
    };
    if inner.rbac {
        let state = inner.state();
        let (resource, shown) = match name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        {
            Some((_, account)) => ("serviceaccounts", account.to_owned()),
            None => ("users", name.clone()),
        };
        if !crate::rbac::allowed(
            &state,
            user,
            &crate::rbac::Action::resource("impersonate", "", resource, "", &shown, ""),
        ) {
            let why = format!(
                "User {:?} cannot impersonate resource {resource:?} in API group \"\" at the cluster scope",
                user.name
            );
            return Err(ApiError::forbidden("", resource, &shown, &why));
        }
    }
    let mut groups = groups;
    if let Some((namespace, _)) = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        && groups.is_empty()
    {
        groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    if name != "system:anonymous" && !groups.iter().any(|group| group == "system:authenticated") {
        groups.push("system:authenticated".into());
    }
    Ok(User { name, uid: text("impersonate-uid").unwrap_or_default(), groups, extra: Vec::new() })
}
