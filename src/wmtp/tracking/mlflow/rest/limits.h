// What an MLflow server takes: sizes, and which names. Lengths are code points, as Python counts.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace wmtp::tracking::mlflow {

// Of one log-batch. A thousand of metrics, params and tags together; characters of its JSON.
inline constexpr std::size_t kMaxBatchMetrics = 1000, kMaxBatchParams = 100, kMaxBatchTags = 100,
                             kMaxBatchRecords = 1000, kMaxBatchCharacters = 1'000'000;
inline constexpr std::size_t kMaxKeyLength = 250, kMaxParamLength = 6000, kMaxTagLength = 8000,
                             kMaxExperimentLength = 500;

// Keys of metrics, params and tags: 1 to 250 of A-Z a-z 0-9 _ / . - : and blank, which as a path
// equal their normal form and lead nowhere else ("a//b", "./a", "a/../b", "/a", "..a" do not).
// Servers take letters of other scripts too; here they are not, as what a letter is changes.
bool is_legal_key(std::string_view key);

struct Fitted {
  std::string text;
  bool is_changed = false;
};

// The key itself where it is legal. Otherwise a legal one like it that ends in a digest of the
// original, so that different keys stay different.
Fitted fit_key(std::string_view key);
// Values as the server's database can hold them: UTF-8 without NUL (U+FFFD stands for what is
// neither), cut between code points at their limit.
Fitted fit_param(std::string_view value);
Fitted fit_tag(std::string_view value);
// The name of an experiment or a run; "" is none, and becomes "_".
Fitted fit_name(std::string_view name);

}  // namespace wmtp::tracking::mlflow
