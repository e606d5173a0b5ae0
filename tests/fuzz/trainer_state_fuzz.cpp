#include "fuzz/fuzz.h"
#include "wmtp/commit/trainer_state.h"

WMTP_FUZZ_TARGET(trainer_state) {
  using namespace wmtp;
  const Json state = commit::parse_trainer_state(fuzz::text_of(bytes), "file");
  const std::string again = commit::trainer_state_text(OrderedJson(state));
  fuzz::require(commit::trainer_state_text(commit::parse_trainer_state(again, "again")) == again,
                "a state that does not come back");
  commit::read_number(state.at("step"), "step");
}
