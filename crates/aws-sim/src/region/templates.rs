//! Launch templates.

use karpenter_provider_aws::calls::{AwsError, DescribeLaunchTemplates, LaunchTemplate, NewLaunchTemplate, Result};

use super::{State, matches_tags};
use crate::chance::id;

const USER_DATA_LIMIT: usize = 16_384;

#[derive(Clone, Debug)]
pub(super) struct HeldTemplate {
    pub(super) id: String,
    pub(super) template: NewLaunchTemplate,
    /// The user data, base64 undone.
    pub(super) user_data: String,
}

impl State {
    pub(super) fn create_template(&mut self, seed: u64, template: &NewLaunchTemplate) -> Result<LaunchTemplate> {
        use base64::Engine;
        let refused = |code: &str, message: String| Err(AwsError::new("CreateLaunchTemplate", code, message));
        if self.templates.contains_key(&template.name) {
            let message = format!("Launch template name already in use: {}", template.name);
            return refused("InvalidLaunchTemplateName.AlreadyExistsException", message);
        }
        let decoded = base64::engine::general_purpose::STANDARD.decode(&template.user_data);
        let Some(user_data) = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return refused("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.".to_owned());
        };
        if user_data.len() > USER_DATA_LIMIT {
            return refused("InvalidUserData.Malformed", "User data is limited to 16384 bytes".to_owned());
        }
        let id = id("lt", seed, &["template", &template.name]);
        let held = HeldTemplate { id: id.clone(), template: template.clone(), user_data };
        self.templates.insert(template.name.clone(), held);
        Ok(LaunchTemplate { id, name: template.name.clone() })
    }

    pub(super) fn describe_templates(&self, request: &DescribeLaunchTemplates) -> Result<Vec<LaunchTemplate>> {
        if let Some(missing) = request.names.iter().find(|name| !self.templates.contains_key(*name)) {
            return Err(not_found("DescribeLaunchTemplates", missing));
        }
        let named = |held: &HeldTemplate| request.names.is_empty() || request.names.contains(&held.template.name);
        let tagged = |held: &HeldTemplate| {
            request.filters.iter().all(|filter| match filter.name.as_str() {
                "launch-template-name" => filter.values.contains(&held.template.name),
                _ => matches_tags(filter, &held.template.tags).unwrap_or(false),
            })
        };
        let found = self.templates.values().filter(|held| named(held) && tagged(held));
        Ok(found.map(|held| LaunchTemplate { id: held.id.clone(), name: held.template.name.clone() }).collect())
    }

    pub(super) fn delete_template(&mut self, matches: impl Fn(&HeldTemplate) -> bool, what: &str) -> Result<()> {
        let name = self.templates.values().find(|held| matches(held)).map(|held| held.template.name.clone());
        match name.and_then(|name| self.templates.remove(&name)) {
            Some(_) => Ok(()),
            None if what.starts_with("lt-") => {
                let message = format!("The specified launch template, with template ID {what}, does not exist.");
                Err(AwsError::new("DeleteLaunchTemplate", "InvalidLaunchTemplateId.NotFound", message))
            }
            None => Err(not_found("DeleteLaunchTemplate", what)),
        }
    }
}

pub(super) fn not_found(operation: &'static str, name: &str) -> AwsError {
    let message = format!("The specified launch template, with template name {name}, does not exist.");
    AwsError::new(operation, "InvalidLaunchTemplateName.NotFoundException", message)
}
