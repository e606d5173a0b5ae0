// A configuration written for a person: every key under what it means, and why it has its value.
#pragma once
#include <span>
#include <string>

#include "wmtp/core/json.h"

namespace wmtp::config {

struct CommentedKey {
  std::string key;    // "dataset.max_length"
  OrderedJson value;  // texts as they are meant: `${` is no reference
  std::string fact;   // that it follows from, after "Here: "; may hold text of files; empty: none
};

// YAML that loads back to these values, in the order of the schema table, whose help texts are the
// comments. Foreign text is escaped: it neither ends a comment nor reaches a terminal as it stands.
// REQUIRES keys of the schema.
std::string commented_yaml(std::span<const CommentedKey> keys);

// Lines of a comment, each begun with `indent` spaces and #, broken between words before column
// 100.
std::string comment_lines(std::string_view text, std::size_t indent);

}  // namespace wmtp::config
