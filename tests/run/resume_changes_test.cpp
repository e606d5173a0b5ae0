// What may differ in the run that goes on, and what is refused by name: data, tokenizer, base,
// configuration.
#include <gtest/gtest.h>

#include <functional>

#include "run/edited_checkpoint.h"
#include "run/resumed_runs.h"
#include "support/expect_error.h"
#include "support/tolerance.h"

namespace wmtp::test {
namespace {

// Which data, tokenizer and configuration a checkpoint is of.
TEST_F(ExactResume, AnotherOriginIsRefusedByName) {
  const TinyStage stage{"baseline", true};
  TinyRun part(*session_, folder_.path(), stage, {save_dir(folder_ / "part")});
  part.run(8);
  const fs::path saved = folder_ / "part" / checkpoint_at(part.trainer().state().step);
  Runs runs(session_, folder_.path(), stage);
  int number = 0;
  const auto fresh = [&] { return folder_ / std::to_string(++number) / saved.filename(); };
  const auto check_cancelled = [&](const fs::path& checkpoint) {
    runs.check_cancelled(checkpoint, 10);
  };
  const auto with_manifest = [&](const std::function<void(checkpoint::Manifest&)>& edit) {
    const fs::path copy = fresh();
    copy_with_manifest(saved, copy, edit);
    return copy;
  };
  EXPECT_NO_THROW(check_cancelled(with_manifest([](checkpoint::Manifest&) {}))) << "the control";
  EXPECT_NO_THROW(check_cancelled(with_manifest([](checkpoint::Manifest& m) {
    m.fingerprints.config = "";
  }))) << "a label: config.yaml is what counts";
  EXPECT_WMTP_ERROR(
      check_cancelled(with_manifest([](checkpoint::Manifest& m) { m.fingerprints.data = ""; })),
      ErrorKind::checkpoint, "name different data");
  EXPECT_WMTP_ERROR(check_cancelled(with_manifest(
                        [](checkpoint::Manifest& m) { m.fingerprints.tokenizer = ""; })),
                    ErrorKind::checkpoint, "name different tokenizers");
  // Both places alike: a run on other data, with another tokenizer.
  for (const auto& [key, what] : {std::pair{"data_fingerprint", "the data files"},
                                  std::pair{"tokenizer_fingerprint", "the tokenizer"}}) {
    const fs::path other = with_manifest([key = std::string(key)](checkpoint::Manifest& m) {
      (key == "data_fingerprint" ? m.fingerprints.data : m.fingerprints.tokenizer) = "other";
    });
    const fs::path both = fresh();
    copy_with_state(other, both, [key = key](Json& s) { s["cursor"][key] = "other"; });
    EXPECT_WMTP_ERROR(check_cancelled(both), ErrorKind::config, what);
  }
  const fs::path other_config = fresh();
  copy_with_config(saved, other_config, [](std::string& yaml) {
    const std::size_t at = yaml.find("max_length: 112");
    ASSERT_NE(at, yaml.npos) << yaml;
    yaml.replace(at, 15, "max_length: 100");
  });
  EXPECT_WMTP_ERROR(check_cancelled(other_config), ErrorKind::config,
                    "dataset.max_length: 100 -> 112");
}

TEST_F(ExactResume, LoraOnlyCheckpointsGoOnFromTheBaseTheyName) {
  const TinyStage stage{"baseline", true};
  const std::vector<std::string> only{"checkpoint.save_lora_only=true"};
  Runs runs(session_, folder_.path(), stage);
  runs.run_straight();
  const auto small = runs.check_cancelled(runs.straight(10), std::nullopt, only);
  EXPECT_NE(small.hash, state_hash(runs.straight(kTinySteps))) << "the base is left out";
  TinyRun part(*session_, folder_.path(), stage,
               {save_dir(folder_ / "part"), only.front(),
                "checkpoint.resume=" + runs.straight(10).string()});
  part.run(20);
  const fs::path cut = folder_ / "part" / checkpoint_at(part.trainer().state().step);
  EXPECT_EQ(runs.check_cancelled(cut, std::nullopt, only).hash, small.hash);
  const fs::path other = folder_ / "other" / cut.filename();
  copy_with_manifest(cut, other,
                     [](checkpoint::Manifest& m) { m.fingerprints.base = std::string(64, '0'); });
  EXPECT_WMTP_ERROR(runs.check_cancelled(other, std::nullopt, only), ErrorKind::config,
                    "the checkpoint was trained upon a base with the fingerprint 0000");
}

// What may change: the state loads, the same samples come in the same order.
TEST_F(ExactResume, PrecisionAndMicroBatchesMayChange) {
  Runs runs(session_, folder_.path(), {"baseline", false});
  runs.run_straight();
  const std::string all = "training.optimizer.precision=";
  const fs::path rounded_dir = folder_ / "rounded";
  TinyRun rounded(
      *session_, folder_.path(), {"baseline", false},
      {save_dir(rounded_dir), "checkpoint.resume=" + runs.straight(20).string(), all + "bf16_sr"});
  rounded.run(25);
  const std::int64_t step = rounded.trainer().state().step;
  EXPECT_EQ(rounded.trainer().state().cursor.samples_taken,
            static_cast<std::uint64_t>(step) * 2 % 24);
  const auto back =
      runs.check_cancelled(rounded_dir / checkpoint_at(step), std::nullopt, {all + "fp32"});
  EXPECT_EQ(back.step, kTinySteps);
  TinyRun split(*session_, folder_.path(), {"baseline", false},
                {save_dir(folder_ / "split"), "checkpoint.resume=" + runs.straight(20).string(),
                 "training.batch_size=1", "training.gradient_accumulation_steps=2"});
  EXPECT_EQ(split.run(), run::RunEnd::completed);
  const run::TrainState& end = split.trainer().state();
  EXPECT_EQ(end.samples_seen, static_cast<std::uint64_t>(kTinySteps) * 2);
  const Json straight = Json::parse(slurp(runs.straight(kTinySteps) / "trainer_state.json"));
  EXPECT_EQ(Json(data::to_json(end.cursor)), straight.at("cursor"));
  // The same sums over all tokens so far, in another order (law_bounds.h).
  const auto best = straight.at("best").at("value").get<double>();
  EXPECT_WITHIN(std::abs(end.best->value - best),
                0x1p-24 * std::sqrt(static_cast<double>(end.tokens_seen)) * best);
}

}  // namespace
}  // namespace wmtp::test
