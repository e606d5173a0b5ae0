// Where this machine keeps the certificates of the authorities it trusts.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace wmtp::http {

// The environment, handed in by cli/ (http/ never reads it). Empty: no variable is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// The places of Debian, RHEL and its relatives, SUSE, Alpine, in the order in which they are tried.
std::span<const char* const> known_ca_bundles();

// The first of: the file that CURL_CA_BUNDLE names, that which SSL_CERT_FILE names, the first of
// `places` that can be read. Error config where a variable names no readable file (falling back on
// another trust than the one asked for would be wrong), or where there is none at all, with the
// list of what was looked at.
std::filesystem::path find_ca_bundle(const Environment& env,
                                     std::span<const char* const> places = known_ca_bundles());

}  // namespace wmtp::http
