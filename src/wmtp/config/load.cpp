#include "wmtp/config/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "wmtp/config/canonical.h"
#include "wmtp/config/derived.h"
#include "wmtp/config/input_paths.h"
#include "wmtp/config/interpolate.h"
#include "wmtp/config/layers.h"
#include "wmtp/config/rules/inert_keys.h"
#include "wmtp/config/rules/rules.h"
#include "wmtp/config/shape_fields.h"
#include "wmtp/config/tables/schema.h"
#include "wmtp/config/yaml/problems.h"
#include "wmtp/core/checksum.h"

namespace wmtp::config {
namespace {

std::vector<Node> raw_values(const Layers& layers) {
  std::vector<Node> raw;
  for (std::size_t i = 0; i < layers.written.size(); ++i)
    raw.push_back(layers.written[i] ? *layers.written[i]
                                    : node_of(schema().default_of(schema().rows()[i])));
  return raw;
}

// One load, step by step; all problems go to one list.
class Loader {
 public:
  explicit Loader(const LoadRequest& request)
      : request_(request),
        layers_(read_layers(request, problems_)),
        raw_(raw_values(layers_)),
        interpolator_(raw_, request_.env, problems_) {}

  ResolvedConfig run() {
    assign_rows();
    if (!layers_.broken) {
      require_rows();
      derived_ = derive_defaults(result_.config, layers_.gae_implied,
                                 [&](auto key) { return is_written(key); });
      if (request_.check_available) refuse_unavailable();
      if (request_.check_available) refuse_unknown_params();
      check_rules();
      if (!failed_.contains("experiment.stage")) drop_inert();
      if (request_.check_paths) check_inputs();
    }
    problems_.throw_if_any();
    describe_keys();
    return std::move(result_);
  }

 private:
  const std::vector<Row>& rows() const { return schema().rows(); }
  bool is_written(std::string_view key) const {
    return layers_.written[schema().index(*schema().find(key))].has_value();
  }
  Place place_of(const Row& row) const {
    const auto& node = layers_.written[schema().index(row)];
    return node ? node->place : layers_.stage_file;
  }

  void assign_rows() {
    for (std::size_t i = 0; i < rows().size(); ++i) {
      if (!assign(rows()[i], interpolator_.value(i), result_.config)) failed_.insert(rows()[i].key);
    }
  }
  bool assign(const Row& row, const Node* value, Config& config) {
    if (!value) return false;
    if (row.required && !layers_.written[schema().index(row)]) return true;
    Node node = *value;
    if (row.type.path && !expand_home(node, request_.env)) {
      problems_.add(place_of(row), row.key,
                    "cannot expand ~/: HOME is not set; write the path out");
      return false;
    }
    return row.assign(config, node, row, problems_);
  }

  void require_rows() {
    for (const Row& row : rows())
      if (row.required && !is_written(row.key)) {
        problems_.add(layers_.stage_file, row.key,
                      "required key is missing; `wmtp init` writes a file that has all of them");
        failed_.insert(row.key);
      }
  }

  void refuse_unavailable();
  void refuse_unknown_params();
  void drop_inert();
  Config without(const std::set<std::string, std::less<>>& keys, std::vector<Derivation>& derived);
  // In the stage file itself or on the command line, not in what it builds upon.
  bool is_written_here(const Row& row) const {
    const int source = place_of(row).source;
    return source == layers_.stage_file.source || problems_.is_override(source);
  }
  void check_rules();
  void check_inputs();
  void describe_keys();
  std::string origin_of(const Row& row) const;

  const LoadRequest& request_;
  Problems problems_;
  Layers layers_;
  std::vector<Node> raw_;
  Interpolator interpolator_;
  ResolvedConfig result_;
  std::vector<Derivation> derived_;
  std::set<std::string, std::less<>> failed_;  // keys without a usable value
};

// A key that nothing acts on may only have the value it would have unwritten.
void Loader::refuse_unavailable() {
  std::set<std::string, std::less<>> later;
  for (const Row& row : rows())
    if (!row.available) later.insert(row.key);
  std::vector<Derivation> ignored;
  const Config unwritten = without(later, ignored);
  for (const Row& row : rows()) {
    if (!is_written(row.key) || failed_.contains(row.key)) continue;
    const OrderedJson value = row.value(result_.config);
    if (!row.available && value != row.value(unwritten))
      problems_.add(place_of(row), row.key,
                    fmt::format("not available in this version (only its default, {}, is accepted)",
                                canonical_json(row.value(unwritten))));
    const auto is_later = [&row](const std::string& name) {
      return std::ranges::find(row.later_values, name) != row.later_values.end();
    };
    if (!value.is_string() || !is_later(value.get<std::string>())) continue;
    std::vector<std::string> now = row.type.choices;
    std::erase_if(now, is_later);
    problems_.add(place_of(row), row.key,
                  fmt::format("\"{}\" is not available in this version; use {}",
                              value.get<std::string>(), fmt::join(now, ", ")));
  }
}

void Loader::refuse_unknown_params() {
  constexpr const char* kKey = "models.policy.params";
  if (!is_written(kKey) || failed_.contains(kKey)) return;
  for (const auto& [name, value] : result_.config.models.policy.params.items())
    if (const std::string fact = shape_field_problem(name, value); !fact.empty())
      problems_.add(place_of(*schema().find(kKey)), fmt::format("{}.{}", kKey, name), fact);
}

// The configuration as it would be had nobody written `keys`.
Config Loader::without(const std::set<std::string, std::less<>>& keys,
                       std::vector<Derivation>& derived) {
  Config config;
  for (std::size_t i = 0; i < rows().size(); ++i) {
    const Row& row = rows()[i];
    if (failed_.contains(row.key)) continue;
    if (!keys.contains(row.key)) {
      assign(row, interpolator_.value(i), config);
    } else if (const auto value = interpolator_.resolve(i, node_of(schema().default_of(row)))) {
      assign(row, &*value, config);
    }
  }
  derived = derive_defaults(config, layers_.gae_implied && !keys.contains("training.td.mode"),
                            [&](auto key) { return is_written(key) && !keys.contains(key); });
  return config;
}

// A key that cannot act beside the others is refused where the user has written it for this run,
// and otherwise ignored: the run then has its default, so that what is printed loads again. What
// stands behind a switch that is off keeps its value.
void Loader::drop_inert() {
  std::set<std::string, std::less<>> inert, dropped;
  for (const Row& row : rows()) {
    const InertRule* rule = inert_rule(row.key, result_.config);
    if (!rule || !row.available) continue;
    inert.insert(row.key);
    if (!rule->switched) dropped.insert(row.key);
  }
  std::vector<Derivation> derived;
  const Config unwritten = without(inert, derived);
  std::set<std::string> told;
  for (const std::string& key : inert) {
    const Row& row = *schema().find(key);
    // A resolved file names all keys.
    const bool same = row.value(result_.config) == row.value(unwritten);
    if (same || !is_written(key) || failed_.contains(key)) continue;
    const InertRule& rule = *inert_rule(key, result_.config);
    const std::string reason = rule.reason(result_.config);
    const std::string notice = fmt::format("{} is ignored: {}", rule.subject(), reason);
    if (request_.check_available && !rule.switched && is_written_here(row))
      problems_.add(place_of(row), key, "has no effect here: " + reason);
    else if (told.insert(notice).second)
      result_.notices.push_back(notice);
  }
  if (!problems_.empty()) return;
  result_.config = without(dropped, derived_);
  for (const std::string& key : dropped)
    layers_.written[schema().index(*schema().find(key))].reset();
}

void Loader::check_rules() {
  const auto fail = [&](std::initializer_list<std::string_view> keys, std::string fact) {
    for (const std::string_view key : keys)
      if (failed_.contains(key)) return;
    Place place = layers_.stage_file;
    for (const std::string_view key : keys)
      if (is_written(key)) {
        place = place_of(*schema().find(key));
        break;
      }
    problems_.add(place, *keys.begin(), fact);
  };
  const RuleContext context{result_.config, request_.world_size, fail, result_.notices};
  check_model_rules(context);
  check_data_rules(context);
  if (!failed_.contains("experiment.stage")) check_objective_rules(context);
  check_run_rules(context);
}

void Loader::check_inputs() {
  for (const Row& row : rows()) {
    if (!row.input || !is_written(row.key) || failed_.contains(row.key)) continue;
    for (const std::string& missing : missing_inputs(row, result_.config))
      problems_.add(place_of(row), row.key,
                    fmt::format("\"{}\" does not exist{}{}", missing, instead_of_missing(missing),
                                row.key == "checkpoint.resume"
                                    ? "; it takes auto, never, a checkpoint, a pointer to one "
                                      "(<model>-best), a run's folder or a folder of checkpoints"
                                    : ""));
  }
}

std::string Loader::origin_of(const Row& row) const {
  const std::size_t i = schema().index(row);
  if (layers_.written[i]) return problems_.locate(layers_.written[i]->place, false);
  const auto found = std::find_if(derived_.begin(), derived_.end(),
                                  [&](const Derivation& one) { return one.key == row.key; });
  return found == derived_.end() ? "built-in" : "derived: " + found->reason;
}

void Loader::describe_keys() {
  for (std::size_t i = 0; i < rows().size(); ++i) {
    const Row& row = rows()[i];
    ResolvedKey key{row.key, row.value(result_.config), "", origin_of(row), row.resume, row.agreed};
    const Node* filled = interpolator_.value(i);
    if (filled != nullptr && any_from_env(*filled)) {
      key.reference = json_of(raw_[i]);
      if (layers_.written[i] && !row.type.path) {
        key.digest = sha256_hex(canonical_json(key.value)).substr(0, 16);
        key.value = key.reference;
      }
    }
    result_.keys.push_back(std::move(key));
  }
}

}  // namespace

ResolvedConfig load_config(const LoadRequest& request) {
  return Loader(request).run();
}

}  // namespace wmtp::config
