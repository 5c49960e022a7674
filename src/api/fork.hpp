// The object with the fork handlers has no function that anyone calls; this name is for others to refer to it.
#pragma once

namespace coffer::api {

extern const char fork_handlers_linked;

}  // namespace coffer::api
