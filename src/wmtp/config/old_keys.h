// Names of keys in older configurations and in other programs: the one list from which error
// messages and `wmtp migrate` (migrate/) say what became of them.
#pragma once
#include <span>
#include <string_view>
#include <utility>

namespace wmtp::config {

using NamePair = std::pair<std::string_view, std::string_view>;

// Accepted wherever a key is: {other name, key or section}.
std::span<const NamePair> key_aliases();
// Whether an alias of a key also means training.td.mode: gae where nothing else says the mode.
bool implies_gae(std::string_view path);
// What other programs call a key, where no near name would lead to it: {their name, key}.
std::span<const NamePair> foreign_names();

struct OldKey {
  enum class Fate { renamed, translated, dropped };

  std::string_view path;  // of a key, or of a section with all below it
  Fate fate;
  std::string_view to;      // renamed: the key or section that it is now
  std::string_view advice;  // for who still writes it: "use training.batch_size"
  std::string_view why;     // why it is so
};

std::span<const OldKey> old_keys();
// The row of exactly this path; null: there is none.
const OldKey* find_old_key(std::string_view path);

bool is_under(std::string_view path, std::string_view prefix);  // the same, or below it

}  // namespace wmtp::config
