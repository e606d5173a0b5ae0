// `${a.b}`, `${env:NAME}`, `${env:NAME:-text}` and the literal `$${` in text scalars.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/load.h"
#include "wmtp/config/yaml/node.h"
#include "wmtp/config/yaml/problems.h"
#include "wmtp/core/json.h"

namespace wmtp::config {

std::string escape_references(std::string text);  // every `${` as `$${`
// The same for every text of a value.
OrderedJson escape_all_references(const OrderedJson& value);

class Interpolator {
 public:
  static constexpr std::size_t kMaxDepth = 8;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 10;
  static constexpr std::size_t kMaxCopied = 100'000;  // values, by all references together

  // `raw`: one value per row of the schema. BORROWS all three.
  Interpolator(const std::vector<Node>& raw, const Environment& env, Problems& problems)
      : raw_(raw),
        env_(env),
        problems_(problems),
        values_(raw.size()),
        done_(raw.size(), false),
        depth_(raw.size(), 0) {}

  // The value of a row with all references filled in; null if that failed (reported once).
  const Node* value(std::size_t row);
  // The same for a node that is not in `raw`, under the name of `row`.
  std::optional<Node> resolve(std::size_t row, const Node& node);

 private:
  std::optional<Node> fill(const Node& node);
  std::optional<Node> fill_text(const Node& node);
  std::optional<Node> reference(const std::string& name, const Node& at);
  std::optional<Node> variable(const std::string& name, const Node& at);
  std::nullopt_t fail(const Node& at, std::string_view fact);

  const std::vector<Node>& raw_;
  const Environment& env_;
  Problems& problems_;
  std::vector<std::optional<Node>> values_;
  std::vector<bool> done_;
  std::vector<std::size_t> depth_;  // longest chain of references below a row
  std::vector<std::size_t> chain_;  // rows being resolved
  std::size_t num_copied_ = 0;
};

}  // namespace wmtp::config
