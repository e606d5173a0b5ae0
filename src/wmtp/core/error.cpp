#include "wmtp/core/error.h"

namespace wmtp {
namespace {

std::string compose(std::string_view module, std::string_view fact, std::string_view hint) {
  std::string text = "[" + std::string(module) + "] " + std::string(fact);
  if (!hint.empty()) text += "; " + std::string(hint);
  return text;
}

}  // namespace

Error::Error(ErrorKind kind, std::string_view module, std::string_view fact, std::string_view hint,
             std::source_location where)
    : std::runtime_error(compose(module, fact, hint)),
      kind_(kind),
      module_(module),
      fact_(fact),
      hint_(hint),
      where_(where) {}

ExitCode exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config:
      return ExitCode::config;
    case ErrorKind::data:
      return ExitCode::data;
    case ErrorKind::io:
    case ErrorKind::checkpoint:
      return ExitCode::storage;
    case ErrorKind::comm:
    case ErrorKind::device:
      return ExitCode::retry;
    case ErrorKind::numeric:
      return ExitCode::numeric;
    case ErrorKind::internal:
      return ExitCode::internal;
  }
  return ExitCode::internal;
}

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config:
      return "config";
    case ErrorKind::data:
      return "data";
    case ErrorKind::io:
      return "io";
    case ErrorKind::comm:
      return "comm";
    case ErrorKind::device:
      return "device";
    case ErrorKind::checkpoint:
      return "checkpoint";
    case ErrorKind::numeric:
      return "numeric";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

}  // namespace wmtp
