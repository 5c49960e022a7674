// SPDX-License-Identifier: MIT
// A table of sessions that are never thrown out, in C. retained_c [COUNT].
#include <stdio.h>
#include <stdlib.h>

struct session {
  struct session* next;
  char* text;
};

static struct session* sessions[16];

static char* make_text(int number) {
  char* text = malloc(2000);
  text[0] = (char)number;
  return text;
}

static void open_session(int number) {
  struct session* made = malloc(sizeof *made);
  made->text = make_text(number);
  made->next = sessions[number % 16];
  sessions[number % 16] = made;
}

int main(int count, char** arguments) {
  const int many = count > 1 ? atoi(arguments[1]) : 1000;
  for (int i = 0; i < many; ++i) open_session(i);
  exit(3);
}
