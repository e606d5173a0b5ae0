#include "wmtp/run/report/public_text.h"

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::run {

const OrderedJson& public_value(const config::ResolvedKey& key) {
  return key.reference.is_null() ? key.value : key.reference;
}

const config::ResolvedKey& key_named(const config::ResolvedConfig& resolved,
                                     std::string_view name) {
  const auto found = std::find_if(resolved.keys.begin(), resolved.keys.end(),
                                  [&](const config::ResolvedKey& key) { return key.key == name; });
  WMTP_CHECK(found != resolved.keys.end(), "a key of the schema");
  return *found;
}

std::string plain_text(const OrderedJson& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string public_text(const config::ResolvedConfig& resolved, std::string_view name) {
  return plain_text(public_value(key_named(resolved, name)));
}

std::vector<std::string> public_texts(const config::ResolvedConfig& resolved,
                                      std::string_view name) {
  const OrderedJson& value = public_value(key_named(resolved, name));
  if (!value.is_array()) return {plain_text(value)};
  std::vector<std::string> texts;
  for (const OrderedJson& item : value) texts.push_back(plain_text(item));
  return texts;
}

tracking::RunLabels run_labels(const config::ResolvedConfig& resolved) {
  return {public_text(resolved, "experiment.description"),
          resolved.config.experiment.tags.empty() ? std::vector<std::string>()
                                                  : public_texts(resolved, "experiment.tags"),
          public_text(resolved, "dataset.name"), public_text(resolved, "models.reference.name")};
}

}  // namespace wmtp::run
