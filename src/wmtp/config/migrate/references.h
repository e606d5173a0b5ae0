// OmegaConf's references in text as ours: `${oc.env:NAME,text}` is `${env:NAME:-text}`, and
// `${a.b}` follows the key to its new name, or stands for its value where the key is gone.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "wmtp/config/yaml/node.h"

namespace wmtp::config {

// The key of ours that a path of an old file leads to by name alone; empty: none does.
std::string key_of_old_path(std::string_view path);

class References {
 public:
  static constexpr int kMaxDepth = 8;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 10;  // of one text
  static constexpr int kMaxFollowed = 1000;                        // references, of one value

  explicit References(Node old) : old_(std::move(old)) {}

  struct Result {
    Node value;
    std::string note;   // what is written differently now; empty: nothing
    std::string fault;  // what cannot be written here; empty: nothing
  };
  // A value that stands at `path`.
  Result rewrite(const Node& value, std::string_view path);

 private:
  struct Rewriting;
  Node fill(const Node& value, std::string_view path, Rewriting& state);
  Node fill_text(const Node& value, std::string_view path, Rewriting& state);
  std::optional<Node> reference(const std::string& body, std::string_view path, Rewriting& state);
  std::optional<Node> key_reference(std::string name, std::string_view path, Rewriting& state);

  Node old_;  // the whole file
};

}  // namespace wmtp::config
