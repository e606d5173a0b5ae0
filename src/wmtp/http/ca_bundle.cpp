#include "wmtp/http/ca_bundle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>

#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"

namespace wmtp::http {
namespace {

constexpr std::array kKnownBundles = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",                   // RHEL, Fedora, Rocky, Amazon Linux
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL where the link above is missing
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/var/lib/ca-certificates/ca-bundle.pem",             // SUSE where the link above is missing
    "/etc/ssl/cert.pem",                                  // Alpine and others
};

bool is_readable_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), R_OK) == 0;
}

}  // namespace

std::span<const char* const> known_ca_bundles() {
  return kKnownBundles;
}

std::filesystem::path find_ca_bundle(const Environment& env, std::span<const char* const> places) {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const auto value = env ? env(name) : std::nullopt;
    if (!value || value->empty()) continue;
    if (is_readable_file(*value)) return *value;
    throw Error(
        ErrorKind::config, "http",
        fmt::format("{} names {}, which is no file that can be read", name, printable(*value)),
        "name a PEM file with the certificates of trusted authorities, or unset it");
  }
  for (const char* place : places)
    if (is_readable_file(place)) return place;
  throw Error(ErrorKind::config, "http",
              fmt::format("no certificates of trusted authorities found, looked at CURL_CA_BUNDLE "
                          "and SSL_CERT_FILE (not set) and {}",
                          fmt::join(places, ", ")),
              "install the package ca-certificates, or name a PEM file with CURL_CA_BUNDLE");
}

}  // namespace wmtp::http
