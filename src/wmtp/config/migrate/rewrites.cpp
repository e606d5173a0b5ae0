#include "wmtp/config/migrate/rewrites.h"

#include <fmt/format.h>

#include "wmtp/config/old_keys.h"
#include "wmtp/config/shape_fields.h"

namespace wmtp::config {
namespace {

constexpr const char* kStrategy = "distributed.fsdp.sharding_strategy";
constexpr const char* kMixed = "distributed.fsdp.mixed_precision";
constexpr const char* kParamDType = "distributed.fsdp.param_dtype";

Node word(const char* text) {
  return plain_scalar(text, {});
}

std::string reason(const OldEntry& entry) {
  return std::string(find_old_key(entry.key)->why);
}

OldEntry child(const OldEntry& parent, std::size_t i, const std::string& key) {
  const NodeKey& name = parent.value.keys[i];
  return {parent.path + "." + name.name, key, name.place, parent.value.items[i]};
}

void rewrite_project(Rewriter& rewriter, const OldEntry& entry) {
  if (!entry.value.is(Node::Kind::map)) return rewriter.drop(entry, reason(entry));
  for (std::size_t i = 0; i < entry.value.keys.size(); ++i) {
    const OldEntry one = child(entry, i, "experiment.name");
    const bool names =
        entry.value.keys[i].name == "name" && !rewriter.draft().find("experiment.name");
    if (names)
      rewriter.put(one, one.key, text_node(run_name(one.value.text), one.place), reason(entry));
    else
      rewriter.drop(one, reason(entry));
  }
}

// stage1 was the critic's, stage2 that of the weighted policy.
void rewrite_sampling_stage(Rewriter& rewriter, const OldEntry& entry, const std::string& name) {
  const std::string stage = rewriter.draft().text_of("experiment.stage");
  const std::string wanted = stage == "critic" ? "stage1" : stage == "verifiable" ? "stage2" : "";
  if ((name != "stage1" && name != "stage2") || wanted.empty())
    return rewriter.refuse(entry,
                           "stage1 is data_sampling of a critic's file, stage2 that of a "
                           "verifiable one; this is neither");
  if (name != wanted)
    return rewriter.drop(entry, "it is data_sampling in the file of the other stage");
  if (entry.value.is(Node::Kind::map))
    rewriter.take_map(entry.value, entry.path, "data_sampling");
  else
    rewriter.refuse(entry, fmt::format("expected a map, found {}", describe(entry.value)));
}

void rewrite_data(Rewriter& rewriter, const OldEntry& entry) {
  if (!entry.value.is(Node::Kind::map)) return rewriter.refuse(entry, "unknown key");
  for (std::size_t i = 0; i < entry.value.keys.size(); ++i) {
    const OldEntry sampling = child(entry, i, "");
    if (sampling.path != "data.sampling" || !sampling.value.is(Node::Kind::map)) {
      rewriter.refuse(sampling, "unknown key");
      continue;
    }
    for (std::size_t k = 0; k < sampling.value.keys.size(); ++k)
      rewrite_sampling_stage(rewriter, child(sampling, k, ""), sampling.value.keys[k].name);
  }
}

Node one_bin(Node value) {
  Node bins;
  bins.kind = Node::Kind::map;
  bins.keys.push_back({"all", {}});
  bins.items.push_back(std::move(value));
  return bins;
}

void rewrite_difficulty_range(Rewriter& rewriter, const OldEntry& entry) {
  constexpr const char* kBins = "data_sampling.difficulty_bins";
  constexpr const char* kWeights = "data_sampling.difficulty_weights";
  if (entry.value.is(Node::Kind::null)) return rewriter.drop(entry, "null: no range is asked for");
  if (!entry.value.is(Node::Kind::list) || entry.value.items.size() != 2)
    return rewriter.refuse(entry, fmt::format("expected [a, b], found {}", describe(entry.value)));
  if (rewriter.draft().find(kBins) || rewriter.draft().find(kWeights))
    return rewriter.refuse(entry, fmt::format("{} or difficulty_weights is given too", kBins));
  const std::string why = reason(entry);
  rewriter.replace(entry, kBins, one_bin(entry.value), "was difficulty_range");
  rewriter.replace(entry, kWeights, one_bin(word("1.0")), why);
  rewriter.record(
      entry, Change::Action::translated,
      fmt::format("{}: {}, {}: {{all: 1.0}}", kBins, flow_text(one_bin(entry.value)), kWeights),
      why);
}

void rewrite_weight_mode(Rewriter& rewriter, const OldEntry& entry) {
  const std::string &mode = entry.value.text, stage = rewriter.draft().text_of("experiment.stage");
  const std::string why = fmt::format("training.weight_mode: {} meant it", mode);
  if (mode == "uniform" && stage == "baseline")
    return rewriter.drop(entry, "stage baseline weighs all tokens alike");
  const bool control = mode == "random" || mode == "shuffled";
  if ((stage != "baseline" && stage != "verifiable") || (mode != "critic" && !control))
    return rewriter.refuse(entry,
                           fmt::format("stage {} with weight_mode {} has no counterpart; {}", stage,
                                       describe(entry.value), find_old_key(entry.key)->advice));
  rewriter.replace(entry, "experiment.stage", word("verifiable"), why);
  const char* key = control ? "training.td.control" : "training.value.source";
  const Node value = control ? entry.value : word("model");
  rewriter.replace(entry, key, value, why);
  rewriter.record(entry, Change::Action::translated,
                  fmt::format("experiment.stage: verifiable, {}: {}", key, flow_text(value)),
                  reason(entry));
}

bool is_true(Node value) {
  respell(*schema().find(kMixed), value);
  return value.is(Node::Kind::boolean) && value.boolean;
}

bool is_false(Node value) {
  respell(*schema().find(kMixed), value);
  return value.is(Node::Kind::null) || (value.is(Node::Kind::boolean) && !value.boolean);
}

void rewrite_fp16(Rewriter& rewriter, const OldEntry& entry) {
  if (is_true(entry.value))
    rewriter.put(entry, kParamDType, word("fp16"), reason(entry));
  else if (is_false(entry.value))
    rewriter.drop(entry, "fp16 is used only where distributed.fsdp.param_dtype says so");
  else
    rewriter.refuse(entry, fmt::format("expected true or false, found {}", describe(entry.value)));
}

void rewrite_bf16(Rewriter& rewriter, const OldEntry& entry) {
  if (rewriter.draft().text_of(kParamDType) == "fp16" && is_false(entry.value))
    rewriter.drop(entry, "training.fp16 says the precision");
  else
    rewriter.put(entry, kMixed, entry.value, reason(entry));
}

// Also as accelerate and Lightning write it.
void rewrite_mixed_precision(Rewriter& rewriter, const OldEntry& entry) {
  const std::string& text = entry.value.text;
  if (text == "fp16" || text == "float16" || text == "16-mixed")
    rewriter.put(entry, kParamDType, word("fp16"), reason(entry));
  else if (text == "bf16" || text == "bfloat16" || text == "bf16-mixed")
    rewriter.put(entry, kMixed, word("true"), reason(entry));
  else if (text == "fp32" || text == "float32" || text == "32")
    rewriter.put(entry, kMixed, word("false"), reason(entry));
  else
    rewriter.put(entry, kMixed, entry.value, reason(entry));
}

void rewrite_ddp(Rewriter& rewriter, const OldEntry& entry) {
  if (is_true(entry.value))
    rewriter.put(entry, kStrategy, word("NO_SHARD"), reason(entry));
  else if (is_false(entry.value))
    rewriter.drop(entry, fmt::format("{} says what is sharded", kStrategy));
  else
    rewriter.refuse(entry, fmt::format("expected true or false, found {}", describe(entry.value)));
}

void rewrite_s3_artifacts(Rewriter& rewriter, const OldEntry& entry) {
  const std::string& text = entry.value.text;
  if (is_false(entry.value) || text.empty()) return rewriter.drop(entry, reason(entry));
  if (!text.starts_with("s3://") || text.size() == 5)
    return rewriter.refuse(entry, "expected s3://bucket/prefix; name the bucket in storage.s3");
  const std::string rest = text.substr(5), bucket = rest.substr(0, rest.find('/'));
  std::string prefix = rest.substr(std::min(bucket.size() + 1, rest.size()));
  while (prefix.ends_with('/')) prefix.pop_back();
  const std::string was = "was " + entry.path;
  rewriter.replace(entry, "checkpoint.s3_upload", word("true"), was);
  rewriter.replace(entry, "storage.s3.bucket", text_node(bucket, {}), was);
  if (!prefix.empty()) rewriter.replace(entry, "storage.s3.prefix", text_node(prefix, {}), was);
  rewriter.record(entry, Change::Action::translated,
                  fmt::format("checkpoint.s3_upload: true, storage.s3.bucket: {}{}", bucket,
                              prefix.empty() ? "" : ", storage.s3.prefix: " + prefix),
                  reason(entry));
}

struct NamedRewrite {
  std::string_view key;
  Rewrite rewrite;
};

constexpr NamedRewrite kTranslations[] = {
    {"project", rewrite_project},
    {"data", rewrite_data},
    {"data_sampling.difficulty_range", rewrite_difficulty_range},
    {"training.weight_mode", rewrite_weight_mode},
    {"training.fp16", rewrite_fp16},
    {"training.bf16", rewrite_bf16},
    {"runtime.mixed_precision", rewrite_mixed_precision},
    {"runtime.ddp", rewrite_ddp},
    {"mlflow.s3_artifacts", rewrite_s3_artifacts},
};

}  // namespace

void rewrite_params(Rewriter& rewriter, const OldEntry& entry) {
  if (!entry.value.is(Node::Kind::map)) return rewriter.put(entry, entry.key, entry.value, "");
  OldEntry rest = entry;
  rest.value.keys.clear();
  rest.value.items.clear();
  for (std::size_t i = 0; i < entry.value.keys.size(); ++i) {
    const OldEntry one = child(entry, i, entry.key + "." + entry.value.keys[i].name);
    const std::string fact =
        shape_field_problem(entry.value.keys[i].name, Json(json_of(one.value)));
    if (const OldKey* old = find_old_key(one.key)) {
      rewriter.put(one, old->to, one.value, std::string(old->why));
    } else if (one.value.is(Node::Kind::null)) {
      rewriter.drop(one, "null: as the model's files say");
    } else if (!fact.empty()) {
      rewriter.refuse(one, fact);
    } else {
      rest.value.keys.push_back(entry.value.keys[i]);
      rest.value.items.push_back(one.value);
    }
  }
  if (!rest.value.keys.empty()) rewriter.put(rest, entry.key, rest.value, "");
}

Rewrite translation_of(std::string_view path) {
  for (const NamedRewrite& one : kTranslations)
    if (one.key == path) return one.rewrite;
  return nullptr;
}

}  // namespace wmtp::config
