// Private to comm/: what a Store covers. Includes c10d, so only for sources that need it.
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <filesystem>
#include <optional>
#include <string>

#include "wmtp/comm/store.h"

namespace wmtp::comm {

struct Store::Body {
  c10::intrusive_ptr<c10d::Store> store;
  std::string prefix;
  std::optional<std::filesystem::path> folder;
  bool serves = false;
};

// Whether the store lives in this process, so that the others lose it when this one ends.
bool serves(const Store& store);
Store root_of(const Store& store);  // without prefixes, on the same connection

// First line of an exception's text: c10's own carry stack traces.
std::string first_line(const std::exception& error);

}  // namespace wmtp::comm
