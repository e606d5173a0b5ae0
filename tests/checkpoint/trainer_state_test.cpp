#include "wmtp/checkpoint/format/trainer_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "wmtp/core/rng.h"

namespace wmtp::checkpoint {
namespace {

OrderedJson some_state() {
  OrderedJson state;
  for (const char* key :
       {"version", "step", "epoch", "samples_seen", "tokens_seen", "cursor", "rng", "optimizer",
        "schedule", "loss_scale", "ema", "best", "early_stop", "layout", "mlflow"})
    state[key] = nullptr;
  return state;
}

TEST(TrainerState, MissingAndUnknownKeysAreNamed) {
  OrderedJson state = some_state();
  parse_trainer_state(trainer_state_text(state), "file");
  state["loss_watch"] = nullptr;  // the one that may be missing
  parse_trainer_state(trainer_state_text(state), "file");
  state.erase("cursor");
  EXPECT_WMTP_ERROR(trainer_state_text(state), ErrorKind::internal, "\"cursor\" is missing");
  EXPECT_WMTP_ERROR(parse_trainer_state(state.dump(), "file"), ErrorKind::checkpoint,
                    "\"cursor\" is missing");
  state["cursor"] = 1;
  state["extra"] = 1;
  EXPECT_WMTP_ERROR(parse_trainer_state(state.dump(), "file"), ErrorKind::checkpoint,
                    "unknown key \"extra\"");
}

TEST(TrainerState, NumbersComeBackBitEqual) {
  OrderedJson state = some_state();
  OrderedJson& values = state["ema"];
  values = OrderedJson::array();
  RngStream rng(1, "numbers");
  std::vector<double> numbers{0.0,   -0.0,   1.0,     0.1,
                              1e300, 5e-324, 1.0 / 3, std::numeric_limits<double>::max()};
  while (numbers.size() < 5000) {
    const PhiloxWords words = rng.next();
    double value = 0;
    std::memcpy(&value, words.data(), sizeof value);
    if (std::isfinite(value)) numbers.push_back(value);
  }
  for (const double number : numbers) values.push_back(number);
  const Json read = parse_trainer_state(trainer_state_text(state), "file");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_TRUE(read["ema"][i].is_number_float());
    const double back = read["ema"][i].get<double>();
    EXPECT_EQ(std::memcmp(&back, &numbers[i], sizeof back), 0) << numbers[i];
  }
}

TEST(TrainerState, NonFiniteNumbersAreStrings) {
  OrderedJson state = some_state();
  state["best"] = {{"value", std::nan("")}, {"more", {INFINITY, -INFINITY, 1.5}}};
  const std::string text = trainer_state_text(state);
  EXPECT_NE(text.find(R"("best":{"value":"NaN","more":["Infinity","-Infinity",1.5]})"), text.npos);
  const Json read = parse_trainer_state(text, "file");
  EXPECT_TRUE(std::isnan(read_number(read["best"]["value"], "value")));
  EXPECT_EQ(read_number(read["best"]["more"][0], "more"), INFINITY);
  EXPECT_EQ(read_number(read["best"]["more"][1], "more"), -INFINITY);
  EXPECT_WMTP_ERROR(read_number(Json("nan"), "value"), ErrorKind::checkpoint, "no number");
}

}  // namespace
}  // namespace wmtp::checkpoint
