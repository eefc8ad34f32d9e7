//! The files, and which of them defines what.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// What is served here, as each crate's build described it.
const DESCRIPTORS: [&[u8]; 4] = [
    silverback_proto::DESCRIPTORS,
    tonic_health::pb::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
];

/// Files by name and by what they define.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Each a `FileDescriptorProto`.
    files: Vec<Vec<u8>>,
    by_name: HashMap<String, usize>,
    by_symbol: HashMap<String, usize>,
    services: Vec<String>,
}

impl Index {
    /// The index of this build, made when it is asked for first.
    pub(crate) fn get() -> &'static Self {
        static INDEX: LazyLock<Index> = LazyLock::new(|| Index::of(&DESCRIPTORS));
        &INDEX
    }

    fn of(descriptors: &[&[u8]]) -> Self {
        let mut index = Self::default();
        for set in descriptors {
            let set = FileDescriptorSet::decode(*set).expect("the build wrote descriptors");
            set.file.into_iter().for_each(|file| index.add(&file));
        }
        index.services.sort_unstable();
        index
    }

    /// The file of this name.
    pub(crate) fn file(&self, name: &str) -> Option<&[u8]> {
        Some(&self.files[*self.by_name.get(name)?])
    }

    /// The file that defines a service, a method, a message or an enum of this full name.
    pub(crate) fn file_of_symbol(&self, symbol: &str) -> Option<&[u8]> {
        Some(&self.files[*self.by_symbol.get(symbol)?])
    }

    /// The services' full names, ascending.
    pub(crate) fn services(&self) -> &[String] {
        &self.services
    }

    fn add(&mut self, file: &FileDescriptorProto) {
        if self.by_name.contains_key(file.name()) {
            return;
        }
        self.by_name.insert(file.name().to_owned(), self.files.len());
        let package = file.package();
        for service in &file.service {
            let name = full_name(package, service.name());
            service.method.iter().for_each(|method| self.add_symbol(full_name(&name, method.name())));
            self.services.push(name.clone());
            self.add_symbol(name);
        }
        file.message_type.iter().for_each(|message| self.add_message(package, message));
        self.add_enums(package, &file.enum_type);
        self.files.push(file.encode_to_vec());
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = full_name(scope, message.name());
        message.nested_type.iter().for_each(|nested| self.add_message(&name, nested));
        message.field.iter().for_each(|field| self.add_symbol(full_name(&name, field.name())));
        self.add_enums(&name, &message.enum_type);
        self.add_symbol(name);
    }

    fn add_enums(&mut self, scope: &str, enums: &[EnumDescriptorProto]) {
        enums.iter().for_each(|one| self.add_symbol(full_name(scope, one.name())));
    }

    fn add_symbol(&mut self, name: String) {
        self.by_symbol.insert(name, self.files.len());
    }
}

fn full_name(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(symbol: &str, file: &str) {
        let index = Index::get();
        let found = index.file_of_symbol(symbol).unwrap_or_else(|| panic!("{symbol}"));
        assert_eq!(FileDescriptorProto::decode(found).unwrap().name(), file);
        assert_eq!(index.file(file), Some(found));
    }

    #[test]
    fn symbols_of_every_kind_lead_to_their_files() {
        check("silverback.v1.Query", "silverback/v1/query.proto");
        check("silverback.v1.Query.Select", "silverback/v1/query.proto");
        check("silverback.v1.Label", "silverback/v1/labels.proto");
        check("silverback.v1.Label.name", "silverback/v1/labels.proto");
        check("silverback.v1.MatcherKind", "silverback/v1/query.proto");
        check(
            "opentelemetry.proto.metrics.v1.SummaryDataPoint.ValueAtQuantile",
            "opentelemetry/proto/metrics/v1/metrics.proto",
        );
        assert_eq!(Index::get().file_of_symbol("silverback.v1.Nothing"), None);
    }

    #[test]
    fn every_file_s_imports_are_there() {
        let index = Index::get();
        for file in &index.files {
            for import in FileDescriptorProto::decode(&file[..]).unwrap().dependency {
                assert!(index.file(&import).is_some(), "{import}");
            }
        }
    }

    #[test]
    fn what_is_listed_is_what_is_served() {
        let expect = [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "opentelemetry.proto.collector.metrics.v1.MetricsService",
            "silverback.v1.Admin",
            "silverback.v1.Ingest",
            "silverback.v1.Query",
            "thanos.Exemplars",
            "thanos.Query",
            "thanos.Store",
            "thanos.WriteableStore",
            "thanos.info.Info",
        ];
        assert_eq!(Index::get().services(), expect);
    }
}
