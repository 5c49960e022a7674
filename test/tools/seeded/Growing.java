// SPDX-License-Identifier: MIT
// A service that keeps every answer that it gave, outside the heap of Java, and never looks at one again.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

public class Growing {
  static final List<ByteBuffer> history = new ArrayList<>();

  static int handleRequest(int number) {
    ByteBuffer answer = ByteBuffer.allocateDirect(5000 + number % 10);
    history.add(answer);
    return answer.capacity();
  }

  static int serve(int requests) {
    int total = 0;
    for (int number = 0; number < requests; number++) total += handleRequest(number);
    return total;
  }

  public static void main(String[] arguments) {
    System.out.println(serve(8000) + " bytes");
  }
}
