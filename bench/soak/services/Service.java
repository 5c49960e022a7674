// SPDX-License-Identifier: MIT
// Service PORT: answers GET /task/KEY/SIZE, with memory outside the heap of Java.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.zip.Deflater;
import java.util.zip.Inflater;
import sun.misc.Unsafe;

public class Service {
  static final int KEPT = 300;
  static final Unsafe MEMORY = memory();
  // Blocks of Unsafe, freed by whichever thread makes the next one.
  static final Map<Integer, Long> kept = new LinkedHashMap<>();

  static Unsafe memory() {
    try {
      Field field = Unsafe.class.getDeclaredField("theUnsafe");
      field.setAccessible(true);
      return (Unsafe) field.get(null);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  static String work(int key, int size) throws Exception {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < size; ++i) text.append("row ").append(i).append(" of ").append(key).append(';');
    byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
    ByteBuffer packed = ByteBuffer.allocateDirect(bytes.length + 64);
    Deflater deflater = new Deflater(1);
    deflater.setInput(bytes);
    deflater.finish();
    while (!deflater.finished()) deflater.deflate(packed);
    deflater.end();
    packed.flip();
    Inflater inflater = new Inflater();
    byte[] back = new byte[bytes.length];
    inflater.setInput(packed);
    int length = inflater.inflate(back);
    inflater.end();
    if (length != bytes.length || !java.util.Arrays.equals(back, bytes)) throw new IOException("not what was packed");
    long block = MEMORY.allocateMemory(200 + 64L * size);
    MEMORY.setMemory(block, 200 + 64L * size, (byte) key);
    synchronized (kept) {
      Long before = kept.remove(key);
      if (before != null) MEMORY.freeMemory(before);
      kept.put(key, block);
      if (kept.size() > KEPT) MEMORY.freeMemory(kept.remove(kept.keySet().iterator().next()));
      return packed.limit() + " " + kept.size() + "\n";
    }
  }

  static void answer(HttpExchange exchange) throws IOException {
    String[] words = exchange.getRequestURI().getPath().split("/");
    int status = 200;
    String body;
    try {
      body = work(Integer.parseInt(words[2]), Integer.parseInt(words[3]));
    } catch (Exception error) {
      status = 500;
      body = error + "\n";
    }
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(status, bytes.length);
    exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  public static void main(String[] words) throws IOException {
    int port = Integer.parseInt(words[0]);
    HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port), 64);
    server.createContext("/task", Service::answer);
    server.setExecutor(Executors.newFixedThreadPool(4));
    server.start();
  }
}
