#include "fuzz/fuzz.h"
#include "wmtp/checkpoint/format/trainer_state.h"

WMTP_FUZZ_TARGET(trainer_state) {
  using namespace wmtp;
  const Json state = checkpoint::parse_trainer_state(fuzz::text_of(bytes), "file");
  const std::string again = checkpoint::trainer_state_text(OrderedJson(state));
  fuzz::require(
      checkpoint::trainer_state_text(checkpoint::parse_trainer_state(again, "again")) == again,
      "a state that does not come back");
  checkpoint::read_number(state.at("step"), "step");
}
