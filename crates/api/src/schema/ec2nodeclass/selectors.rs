//! Selector terms.
//!
//! Some "mutually exclusive" rules only fire when every term of the list breaks them; the reference admits a list with
//! one good term, and so do we.
//!
//! A term whose only content is an empty tag map would select everything in the account. The reference's own clients
//! drop an empty map before sending it, so that the term is refused as empty; our rules refuse it also when it is sent.

use serde_json::Value;

use super::super::rule::{elements, has};
use super::super::template::has_any;
use super::super::{Rule, Schema, list, map, object, text};

pub(in crate::schema) fn subnets() -> Schema {
    let term = object(
        "Selects subnets. The fields of a term must all match.",
        [("id", text("The subnet's id.").pattern("subnet-[0-9a-z]+")), ("tags", tags("The subnet's tags."))],
    );
    list("Which subnets to launch into. The terms are alternatives.", term)
        .at_most(30)
        .rule(not_empty("subnetSelectorTerms cannot be empty"))
        .rule(Rule::each("expected at least one, got none, ['tags', 'id']", at_least_one(&["id"]), |x| {
            selects_something(x, &["id"])
        }))
        .rule(Rule::whole(
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
            "!self.all(x, has(x.id) && has(x.tags))",
            |terms| !elements(terms).iter().all(|x| has(x, "id") && has(x, "tags")),
        ))
}

pub(in crate::schema) fn security_groups() -> Schema {
    let term = object(
        "Selects security groups. The fields of a term must all match.",
        [
            ("id", text("The group's id.").pattern("sg-[0-9a-z]+")),
            ("name", text("The group's name, which is not its name tag.")),
            ("tags", tags("The group's tags.")),
        ],
    );
    list(
        "Which security groups to attach: all that match. The terms are alternatives.",
        term,
    )
    .at_most(30)
    .rule(not_empty("securityGroupSelectorTerms cannot be empty"))
    .rule(Rule::each(
        "expected at least one, got none, ['tags', 'id', 'name']",
        at_least_one(&["id", "name"]),
        |x| selects_something(x, &["id", "name"]),
    ))
    .rule(Rule::whole(
        "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector \
             term",
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
        |terms| {
            !elements(terms)
                .iter()
                .all(|x| has(x, "id") && has_any(x, &["tags", "name"]))
        },
    ))
    .rule(Rule::whole(
        "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector \
             term",
        "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
        |terms| {
            !elements(terms)
                .iter()
                .all(|x| has(x, "name") && has_any(x, &["tags", "id"]))
        },
    ))
}

pub(in crate::schema) fn capacity_reservations() -> Schema {
    let term = object(
        "Selects capacity reservations. The fields of a term must all match.",
        [
            ("id", text("The reservation's id.").pattern("^cr-[0-9a-z]+$")),
            ("instanceMatchCriteria", text("Which launches the reservation accepts.").one_of(&["open", "targeted"])),
            ("ownerID", text("The account that owns the reservation.").pattern("^[0-9]{12}$")),
            ("tags", tags("The reservation's tags.")),
        ],
    );
    list("Which capacity reservations to use first. The terms are alternatives.", term)
        .at_most(30)
        .rule(Rule::each(
            "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
            at_least_one(&["id", "instanceMatchCriteria"]),
            |x| selects_something(x, &["id", "instanceMatchCriteria"]),
        ))
        .rule(Rule::whole(
            "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
            |terms| {
                !elements(terms)
                    .iter()
                    .all(|x| has(x, "id") && has_any(x, &["tags", "ownerID", "instanceMatchCriteria"]))
            },
        ))
}

pub(in crate::schema) fn placement_group() -> Schema {
    object(
        "The placement group of every instance of the class, by name or by id.",
        [("id", text("The group's id.").pattern("^pg-[0-9a-z]+$")), ("name", text("The group's name.").at_least(1))],
    )
    .rule(Rule::whole(
        "expected at least one, got none, ['name', 'id']",
        "has(self.name) || has(self.id)",
        |selector| has_any(selector, &["name", "id"]),
    ))
    .rule(Rule::whole("'name' and 'id' are mutually exclusive", "!(has(self.name) && has(self.id))", |selector| {
        !(has(selector, "name") && has(selector, "id"))
    }))
}

pub(in crate::schema) fn amis() -> Schema {
    let term = object(
        "Selects images. The fields of a term must all match.",
        [
            ("alias", alias()),
            ("id", text("The image's id.").pattern("ami-[0-9a-z]+")),
            ("name", text("The image's name, which is not its name tag.")),
            ("owner", text("Who owns the image: an account id or alias, self, amazon or aws-marketplace.")),
            ("ssmParameter", text("Name or ARN of an SSM parameter that holds an image id.")),
            ("tags", tags("The image's tags.")),
        ],
    );
    const OTHERS: [&str; 4] = ["id", "name", "alias", "ssmParameter"];
    list("Which images to launch. The terms are alternatives.", term)
        .at_least(1)
        .at_most(30)
        .rule(Rule::each(
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
            at_least_one(&OTHERS),
            |x| selects_something(x, &OTHERS),
        ))
        .rule(Rule::each(
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
            |x| !(has(x, "id") && has_any(x, &["alias", "tags", "name", "owner"])),
        ))
        .rule(Rule::each(
            "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
            |x| !(has(x, "alias") && has_any(x, &["id", "tags", "name", "owner"])),
        ))
        .rule(Rule::whole(
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
            |terms| elements(terms).len() == 1 || !elements(terms).iter().any(|x| has(x, "alias")),
        ))
}

/// The reference insists on `family@version`; a family alone, which means its latest version, is in use as well.
fn alias() -> Schema {
    text(
        "An EKS-optimised image as family@version, where the version may be latest; a family alone means latest too. \
         Windows families know only latest. Following latest replaces nodes whenever a new image appears.",
    )
    .at_most(30)
    .rule(Rule::whole(
        "'alias' is improperly formatted, must match the format 'family@version'",
        "self.matches('^[a-zA-Z0-9]+(@.+)?$')",
        |alias| alias.as_str().is_none_or(is_alias),
    ))
    .rule(Rule::whole(
        "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', \
         'windows2022', 'windows2025'",
        "self.split('@')[0] in ['al2','al2023','bottlerocket','windows2019','windows2022','windows2025']",
        |alias| {
            let families = ["al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025"];
            alias.as_str().is_none_or(|alias| families.contains(&family(alias)))
        },
    ))
    .rule(Rule::whole(
        "windows families may only specify version 'latest'",
        "self.split('@')[0] in ['windows2019','windows2022','windows2025'] && self.split('@').size() > 1 ? \
         self.split('@')[1] == 'latest' : true",
        |alias| {
            alias.as_str().is_none_or(|alias| {
                let windows = ["windows2019", "windows2022", "windows2025"].contains(&family(alias));
                !windows || alias.split('@').nth(1).is_none_or(|version| version == "latest")
            })
        },
    ))
}

fn is_alias(alias: &str) -> bool {
    let (family, version) = match alias.split_once('@') {
        Some((family, version)) => (family, Some(version)),
        None => (alias, None),
    };
    // In the rule's dialect a dot does not match a line break, hence a version may not start with one.
    let version_starts = |version: &str| version.chars().next().is_some_and(|c| c != '\n') && !version.contains('\n');
    !family.is_empty() && family.bytes().all(|b| b.is_ascii_alphanumeric()) && version.is_none_or(version_starts)
}

fn family(alias: &str) -> &str {
    alias.split('@').next().unwrap_or_default()
}

fn tags(description: &'static str) -> Schema {
    map(description, text("")).at_most(20).rule(Rule::entry(
        "empty tag keys or values aren't supported",
        "self.all(k, k != '' && self[k] != '')",
        |key, value| !key.is_empty() && value.as_str() != Some(""),
    ))
}

fn not_empty(message: &'static str) -> Rule {
    Rule::whole(message, "self.size() != 0", |terms| !elements(terms).is_empty())
}

pub(in crate::schema) fn at_least_one(others: &[&str]) -> String {
    let others: Vec<String> = others.iter().map(|field| format!("has(x.{field})")).collect();
    format!("self.all(x, (has(x.tags) && size(x.tags) != 0) || {})", others.join(" || "))
}

pub(in crate::schema) fn selects_something(term: &Value, others: &[&str]) -> bool {
    let tagged = term.get("tags").and_then(Value::as_object).is_some_and(|tags| !tags.is_empty());
    tagged || has_any(term, others)
}
