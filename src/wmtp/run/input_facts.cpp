#include "wmtp/run/input_facts.h"

#include <fmt/format.h>

namespace wmtp::run {
namespace {

constexpr std::size_t kShownDigits = 16;  // of a fingerprint; people compare them by eye

std::string short_form(const std::string& fingerprint) {
  return fingerprint.substr(0, kShownDigits);
}

}  // namespace

comm::Facts input_facts(const ModelPlan& plan, const RunData& data,
                        const std::string& base_fingerprint) {
  comm::Facts facts;
  auto& must = facts.must_agree;
  const data::Dataset& train = data.train();
  must["content of dataset.train"] = short_form(train.corpus().data_fingerprint());
  must["samples drawn from dataset.train"] = short_form(train.list_hash(0));
  must["tokenizer"] = short_form(train.corpus().tokenizer_fingerprint());
  if (data.validation()) {
    must["content of dataset.validation"] =
        short_form(data.validation()->corpus().data_fingerprint());
    must["samples drawn from dataset.validation"] = short_form(data.validation()->list_hash(0));
  }
  must[fmt::format("weights of {}", plan.base_model)] = short_form(base_fingerprint);
  if (plan.frozen)
    must[fmt::format("weights of {}", plan.frozen->path)] =
        short_form(plan.frozen->source.fingerprint());
  return facts;
}

}  // namespace wmtp::run
