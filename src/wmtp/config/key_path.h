// Paths like `training.lora.target_modules[0]`: reading them, resolving aliases and removed names,
// and walking a node by what lies beyond a key.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wmtp/config/tables/schema.h"
#include "wmtp/config/yaml/node.h"

namespace wmtp::config {

using PathStep = std::variant<std::string, std::size_t>;  // a name, or a list index

// Splits "a.b[0].c" and "a.b.0.c" alike; nothing for an empty or malformed path.
std::optional<std::vector<PathStep>> split_path(std::string_view path);

// A path of the schema that an accepted other name stands for ("training.scheduler.type").
std::string main_name(std::string_view path);
bool is_alias(std::string_view path);
// What replaces a key of older files, as a sentence; empty for others.
std::string replacement_of_removed(std::string_view path);
// `unknown key; did you mean "..."?`, or advice where a credential seems meant.
std::string unknown_key_fact(std::string_view path);

// Whether a key's name is that of a credential, whose value is then never shown.
bool speaks_of_secrets(std::string_view path);

struct KeyTarget {
  std::string path;            // main name
  const Row* row = nullptr;    // null: a section
  std::vector<PathStep> rest;  // inside the row's value
};
// The row or section a path leads to; on failure `fact` says why.
std::optional<KeyTarget> find_target(std::string_view path, std::string& fact);

// The node `rest` leads to inside `value`; with `create`, missing map keys and the item after the
// last of a list are made. Null with `fact` set if there is none.
Node* walk(Node& value, const std::vector<PathStep>& rest, bool create, std::string& fact);

}  // namespace wmtp::config
